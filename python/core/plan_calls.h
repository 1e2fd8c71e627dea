/* plan_calls.h: contexts and plans for Python's calls: with the GIL held, and errors raised. */
#ifndef ATTEST_PYTHON_PLAN_CALLS_H
#define ATTEST_PYTHON_PLAN_CALLS_H

#include "python/core/plan_cache.h"
#include "python/core/python_api.h"

/* The plan for a key. NULL with an error. Releases the GIL while a plan is made. Call
 * plan_cache_give() afterwards. */
cached_plan *plan_for(const plan_key *key);

/* The context of a device. NULL with an error. Call device_context_give() afterwards. */
kept_context *context_for(att_device device, int32_t index);

/* Set the number of threads of calls on the CPU; 0: the library's choice. ValueError for an
 * invalid number. */
PyObject *set_threads(PyObject *self, PyObject *count);

/* (hits, misses, plans, limit); and clear the cache. */
PyObject *cache_info(PyObject *self, PyObject *unused);
PyObject *cache_clear(PyObject *self, PyObject *unused);

#endif
