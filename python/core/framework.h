/* framework.h: what is known about an array type: how to open an array, make one, and find its
 * stream. */
#ifndef ATTEST_PYTHON_FRAMEWORK_H
#define ATTEST_PYTHON_FRAMEWORK_H

#include "python/core/python_api.h"
#include "python/core/dlpack.h"
#include "python/core/quick_call.h"

#include <stdbool.h>

/* Every callable is from attest/_frameworks.py or NULL. */
typedef struct framework {
    PyObject *type;
    const dl_exchange *exchange; /* NULL: arrays are read through their method __dlpack__ */
    bool versioned;              /* __dlpack__ supports max_version */
    PyObject *refuse;            /* (array): a text why it cannot be accepted now, or None */
    bool refuse_seldom;          /* call it only if one of these is true: */
    quick_call refuse_apart;     /* a method, for arrays whose last axis is not dense */
    quick_call refuse_when;      /* does not depend on the array */
    PyObject *refuse_if;         /* the name of an attribute, checked while the next is true */
    quick_call refuse_if_when;
    PyObject *export; /* (array): (array, stands_for, read_only) if __dlpack__ failed */
    PyObject *empty;  /* (like, shape, dtype): a new array */
    PyObject *finish; /* (made, dtype): converts the result of `empty` for the caller */
    PyObject *stream; /* (array): the current stream of its GPU, an int; None: no GPU */
    bool immutable;   /* arrays must not be written */
    struct framework *next;
} framework;

/* The framework of an array; lives as long as the process. NULL with TypeError, naming the
 * argument, if `object` is not an array. */
framework *framework_of(PyObject *object, const char *name);

#endif
