/* failure.h: a status of the library as a Python exception. */
#ifndef ATTEST_PYTHON_FAILURE_H
#define ATTEST_PYTHON_FAILURE_H

#include "attest.h"
#include "python/core/python_api.h"

/* attest.Error and attest.UnsupportedError, created with the module. */
extern PyObject *failure_error, *failure_unsupported;
int failure_setup(PyObject *module);

/* The text of att_last_error() for a failure of the library, or the name of a status that this
 * extension raised. */
const char *failure_text(att_status status);

/* Raise the exception. Returns NULL. */
void *failure_raise(att_status status);

#endif
