/* quick_call.h: conditions in Python that are checked on every call, without the interpreter if
 * possible. */
#ifndef ATTEST_PYTHON_QUICK_CALL_H
#define ATTEST_PYTHON_QUICK_CALL_H

#include "python/core/python_api.h"

/* A function without arguments; or a tuple (dictionary, key, value), which is true while the
 * dictionary holds another value. */
typedef struct quick_call {
    PyObject *asked;    /* owned for the life of the process; NULL: none */
    PyCFunction direct; /* NULL: `asked` is not a C function, or takes arguments */
    PyObject *dictionary, *key, *usual; /* borrowed from a tuple; NULL: `asked` is not a
                                         * tuple */
} quick_call;

/* Takes the reference; `asked` may be NULL. 0, or -1 with an error. */
int quick_call_set(quick_call *q, PyObject *asked);

/* The result as a truth value: 1, 0, or -1 with an error. */
int quick_call_true(const quick_call *q);

/* The same for a method: `asked` belongs to some object and is called on another one of its
 * type. */
int quick_call_true_of(const quick_call *q, PyObject *object);

#endif
