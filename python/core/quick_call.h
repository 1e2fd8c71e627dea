/* quick_call.h: questions to Python that are asked on every call, without a step of the interpreter's where it can be. */
#ifndef ATTEST_PYTHON_QUICK_CALL_H
#define ATTEST_PYTHON_QUICK_CALL_H

#include "python/core/python_api.h"

/* A function without arguments; or a tuple (dictionary, key, value), which is true while the dictionary holds something else. */
typedef struct quick_call {
    PyObject *asked;    /* owned for the life of the process; NULL: there is none */
    PyCFunction direct; /* NULL: `asked` is not in C, or takes arguments */
    PyObject *dictionary, *key, *usual; /* borrowed from a tuple; NULL: `asked` is none */
} quick_call;

/* Takes the reference; `asked` may be NULL. 0, or -1 with an error. */
int quick_call_set(quick_call *q, PyObject *asked);

/* The answer as a truth value: 1, 0, or -1 with an error. */
int quick_call_true(const quick_call *q);

/* The same of a method: `asked` is that of some object, called on another of its type. */
int quick_call_true_of(const quick_call *q, PyObject *object);

#endif
