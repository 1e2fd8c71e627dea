/* attention.h: the calls that take arrays. */
#ifndef ATTEST_PYTHON_ATTENTION_H
#define ATTEST_PYTHON_ATTENTION_H

#include "python/core/python_api.h"

PyObject *attention(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *explain(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* The first argument is a number of runs, the others are those of attention(): the cost of a
 * run for a caller from C, in seconds; on a GPU until it is in the stream. */
PyObject *run_seconds(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* The same arguments with arrays as (dtype, device, shape): (shape of o, shape of the LSE,
 * bytes of the problem). */
PyObject *describe(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

#endif
