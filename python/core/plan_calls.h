/* plan_calls.h: contexts and plans as Python's calls use them: with the GIL held, and failures raised. */
#ifndef ATTEST_PYTHON_PLAN_CALLS_H
#define ATTEST_PYTHON_PLAN_CALLS_H

#include "python/core/plan_cache.h"
#include "python/core/python_api.h"

/* The plan for a key. NULL with an error. Lets go of the GIL while a plan is made. plan_cache_give() after use. */
cached_plan *plan_for(const plan_key *key);

/* The context of a device. NULL with an error. device_context_give() after use. */
kept_context *context_for(att_device device, int32_t index);

/* Threads of calls on the CPU from now on, 0: the library's choice. ValueError for what is no such number. */
PyObject *set_threads(PyObject *self, PyObject *count);

/* (hits, misses, plans, limit), and forget all. */
PyObject *cache_info(PyObject *self, PyObject *unused);
PyObject *cache_clear(PyObject *self, PyObject *unused);

#endif
