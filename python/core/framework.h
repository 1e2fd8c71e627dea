/* framework.h: what is known of a type of arrays: how to look into one, make one, and find its stream. */
#ifndef ATTEST_PYTHON_FRAMEWORK_H
#define ATTEST_PYTHON_FRAMEWORK_H

#include "python/core/python_api.h"
#include "python/core/dlpack.h"
#include "python/core/quick_call.h"

#include <stdbool.h>

/* Every callable is of attest/_frameworks.py or NULL. */
typedef struct framework {
    PyObject *type;
    const dl_exchange *exchange; /* NULL: arrays are taken by their method __dlpack__ */
    bool versioned;              /* __dlpack__ knows max_version */
    PyObject *refuse;            /* (array): a text why it cannot be taken now, or None */
    bool refuse_seldom;          /* only if one of these is true: */
    quick_call refuse_apart;     /* a method, asked of arrays whose last axis is not dense */
    quick_call refuse_when;      /* no question of the array */
    PyObject *refuse_if; /* the name of an attribute, looked at while the next is true */
    quick_call refuse_if_when;
    PyObject *export; /* (array): (array, stands_for, read_only) where __dlpack__ failed */
    PyObject *empty;  /* (like, shape, dtype): a new array */
    PyObject *finish; /* (made, dtype): what the caller gets of what `empty` made */
    PyObject *stream; /* (array): the current stream of its GPU, an int; None: no GPU */
    bool immutable;   /* arrays may not be written to */
    struct framework *next;
} framework;

/* The framework of an array; lives as long as the process. NULL with TypeError, naming the argument,
 * where `object` is no array. */
framework *framework_of(PyObject *object, const char *name);

#endif
