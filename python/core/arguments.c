/* arguments.c: the arguments of a call by name. Not PyArg_Parse…: that takes a microsecond for so many names. */
#include "python/core/problem_build.h"

#include <string.h>

const char *const argument_names[ARG_COUNT] = {"q",
                                               "k",
                                               "v",
                                               "causal",
                                               "scale",
                                               "window",
                                               "align",
                                               "softcap",
                                               "alibi",
                                               "bias",
                                               "sinks",
                                               "cu_seqlens_q",
                                               "cu_seqlens_k",
                                               "max_seqlen_q",
                                               "max_seqlen_k",
                                               "lens_k",
                                               "page_table",
                                               "return_lse",
                                               "out",
                                               "layout"};

enum { POSITIONAL = 3 };

static PyObject *interned[ARG_COUNT];

static int intern_names(void) {
    for (int i = 0; i < ARG_COUNT; i++)
        if (!interned[i] && !(interned[i] = PyUnicode_InternFromString(argument_names[i])))
            return -1;
    return 0;
}

/* Names in source code are interned, so that mostly a pointer decides. */
static int find_name(PyObject *name) {
    for (int i = 0; i < ARG_COUNT; i++)
        if (interned[i] == name)
            return i;
    for (int i = 0; i < ARG_COUNT; i++)
        if (!PyUnicode_CompareWithASCIIString(name, argument_names[i]))
            return i;
    return -1;
}

/* `names` is a tuple; `values` are in its order. */
static int read_named(call *c, const char *function, PyObject *names, PyObject *const *values) {
    const Py_ssize_t count = PyTuple_Size(names);
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *name = PyTuple_GetItem(names, n), *value = values[n];
        int i = find_name(name);
        if (i < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected argument '%S'", function,
                         name);
            return -1;
        }
        if (c->given[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got two values for %s", function,
                         argument_names[i]);
            return -1;
        }
        c->given[i] = value;
    }
    return 0;
}

int arguments_read(call *c, const char *function, PyObject *const *args, Py_ssize_t count,
                   PyObject *names) {
    if (intern_names())
        return -1;
    if (count > POSITIONAL) {
        PyErr_Format(PyExc_TypeError,
                     "%s() takes q, k and v by position (%zd given); name the others", function,
                     count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        c->given[i] = args[i];
    if (names && read_named(c, function, names, args + count))
        return -1;
    for (int i = 0; i < ARG_COUNT; i++)
        if (c->given[i] == Py_None)
            c->given[i] = NULL;
    for (int i = 0; i < POSITIONAL; i++)
        if (!c->given[i]) {
            PyErr_Format(PyExc_TypeError, "%s() needs %s", function, argument_names[i]);
            return -1;
        }
    return 0;
}
