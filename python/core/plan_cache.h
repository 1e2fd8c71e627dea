/* plan_cache.h: contexts by device and plans by problem, made once and kept. Call with the GIL held. */
#ifndef ATTEST_PYTHON_PLAN_CACHE_H
#define ATTEST_PYTHON_PLAN_CACHE_H

#include "attest.h"
#include "python/core/python_api.h"

enum { PLAN_CACHE_LIMIT = 256 };

typedef struct cached_plan {
    att_plan *plan;
    size_t workspace; /* bytes */

    uint64_t hash, used; /* `used`: the tick of the latest use */
    att_device device;
    int32_t index;
    int users;                             /* calls in progress */
    int forgotten;                         /* out of the cache; freed with its last user */
    uint64_t key[sizeof(att_problem) / 8]; /* the problem's bytes, padding included */
    struct cached_plan *next;
} cached_plan;

/* The context of a device, kept for the life of the process. NULL with an error. */
att_context *context_of(att_device device, int32_t index);

/* The plan for a problem, whose bytes, padding included, are the key. NULL with an error. May let go of the GIL. */
cached_plan *plan_cache_take(att_device device, int32_t index, const att_problem *problem);
void plan_cache_give(cached_plan *plan);

/* Threads of calls on the CPU from now on, 0: the library's choice. ValueError for what is no such number. */
PyObject *plan_cache_threads(PyObject *self, PyObject *count);

/* (hits, misses, plans, limit), and forget all. */
PyObject *plan_cache_info(PyObject *self, PyObject *unused);
PyObject *plan_cache_clear(PyObject *self, PyObject *unused);

#endif
