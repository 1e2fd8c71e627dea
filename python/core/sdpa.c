/* sdpa.c: plain tensors of four axes, no mask, nobody watching. */
#include "python/core/sdpa.h"
#include "python/core/attention.h"
#include "python/core/problem_build.h"
#include "python/core/quick_call.h"

enum { WATCHERS = 8 };

static PyObject *tensor_type, *top_left;
static quick_call watchers[WATCHERS];
static Py_ssize_t watcher_count;

PyObject *sdpa_setup(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *type, *functions;
    if (!PyArg_ParseTuple(args, "OO!", &type, &PyTuple_Type, &functions))
        return NULL;
    if (PyTuple_Size(functions) > WATCHERS) {
        PyErr_SetString(PyExc_ValueError, "there are too many watchers");
        return NULL;
    }
    if (!top_left && !(top_left = PyUnicode_InternFromString("top-left")))
        return NULL;
    watcher_count = PyTuple_Size(functions); /* they live as long as the process */
    for (Py_ssize_t i = 0; i < watcher_count; i++) {
        PyObject *function = PyTuple_GetItem(functions, i);
        Py_INCREF(function);
        if (quick_call_set(&watchers[i], function))
            return NULL;
    }
    Py_INCREF(type);
    tensor_type = type;
    Py_RETURN_NONE;
}

/* 1, 0, or -1 with an error. */
static int watched(void) {
    int seen = 0;
    for (Py_ssize_t i = 0; i < watcher_count && !seen; i++)
        seen = quick_call_true(&watchers[i]);
    return seen;
}

/* 1 where the call is filled, 0 where it is not the common one, -1 with an error. */
static int fill(call *c, PyObject *const *args) {
    for (int i = 0; i < 3; i++) {
        if ((PyObject *)Py_TYPE(args[i]) != tensor_type)
            return 0;
        c->given[i] = args[i];
    }
    if (args[3] != Py_True && args[3] != Py_False)
        return 0;
    const int seen = watched();
    if (seen < 0)
        return -1;
    c->given[ARG_CAUSAL] = args[3] == Py_True ? top_left : NULL;
    c->given[ARG_SCALE] = args[4] == Py_None ? NULL : args[4];
    return !seen;
}

/* Mistakes are told by attest/torch.py, in PyTorch's words. */
static PyObject *passed(void) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError) &&
        !PyErr_ExceptionMatches(PyExc_ValueError))
        return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyObject *sdpa(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    call c = {.frame = NULL};
    PyObject *result = NULL;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "sdpa() takes six arguments");
        return NULL;
    }
    if ((args[5] == Py_True || args[5] == Py_False) && fill(&c, args) == 1 &&
        !problem_build(&c) && (args[5] == Py_True || c.problem.heads_q == c.problem.heads_kv))
        result = call_finish(&c);
    call_drop(&c);
    return result ? result : passed();
}
