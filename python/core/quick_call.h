/* quick_call.h: calls of functions in C that take nothing: without a step of the interpreter's between. */
#ifndef ATTEST_PYTHON_QUICK_CALL_H
#define ATTEST_PYTHON_QUICK_CALL_H

#include "python/core/python_api.h"

typedef struct quick_call {
    PyObject *function; /* owned for the life of the process; NULL: there is none */
    PyCFunction direct; /* NULL: `function` is not in C, or takes arguments */
} quick_call;

/* Takes the reference; `function` may be NULL. */
void quick_call_set(quick_call *q, PyObject *function);

/* What function() returned, as a truth value: 1, 0, or -1 with an error. */
int quick_call_true(const quick_call *q);

/* The same of a method: `function` is that of some object, asked of another of its type. */
int quick_call_true_of(const quick_call *q, PyObject *object);

#endif
