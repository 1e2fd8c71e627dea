/* queries.h: what machine and library are. */
#ifndef ATTEST_PYTHON_QUERIES_H
#define ATTEST_PYTHON_QUERIES_H

#include "python/core/python_api.h"

/* A list of tuples, the CPU first, then every GPU that the library can use. */
PyObject *devices(PyObject *self, PyObject *unused);

/* kernels(device_type, index): a list of tuples, the kernels as the context of that device sees them. */
PyObject *kernels(PyObject *self, PyObject *args);

#endif
