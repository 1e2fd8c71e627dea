/* failure.h: a status of the library as a Python exception. */
#ifndef ATTEST_PYTHON_FAILURE_H
#define ATTEST_PYTHON_FAILURE_H

#include "attest.h"
#include "python/core/python_api.h"

/* attest.Error and attest.UnsupportedError, made with the module. */
extern PyObject *failure_error, *failure_unsupported;
int failure_setup(PyObject *module);

/* Raise what att_last_error() says. Returns NULL. */
void *failure_raise(att_status status);

#endif
