/* queries.h: information about the machine and the library. */
#ifndef ATTEST_PYTHON_QUERIES_H
#define ATTEST_PYTHON_QUERIES_H

#include "python/core/python_api.h"

/* A list of tuples, the CPU first, then every GPU that the library can use. */
PyObject *devices(PyObject *self, PyObject *unused);

/* kernels(device_type, index): a list of tuples, the kernels from the point of view of that
 * device's context. */
PyObject *kernels(PyObject *self, PyObject *args);

#endif
