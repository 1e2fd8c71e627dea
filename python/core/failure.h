/* failure.h: a status of the library as a Python exception. */
#ifndef ATTEST_PYTHON_FAILURE_H
#define ATTEST_PYTHON_FAILURE_H

#include "attest.h"
#include "python/core/python_api.h"

/* attest.Error and attest.UnsupportedError, made with the module. */
extern PyObject *failure_error, *failure_unsupported;
int failure_setup(PyObject *module);

/* What att_last_error() says of a failure of the library's, or the name of one that this extension found. */
const char *failure_text(att_status status);

/* Raise it. Returns NULL. */
void *failure_raise(att_status status);

#endif
