/* attention.h: the calls that take arrays. */
#ifndef ATTEST_PYTHON_ATTENTION_H
#define ATTEST_PYTHON_ATTENTION_H

#include "python/core/python_api.h"

PyObject *attention(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *explain(PyObject *self, PyObject *args, PyObject *kwargs);

/* What the latest call of this thread ran, or None. */
PyObject *last_launch(PyObject *self, PyObject *unused);

#endif
