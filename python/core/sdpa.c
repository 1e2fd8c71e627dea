/* sdpa.c: plain tensors of four axes, no other arrays, nothing that intercepts calls. */
#include "python/core/sdpa.h"
#include "python/core/attention.h"
#include "python/core/backward_call.h"
#include "python/core/problem_build.h"
#include "python/core/quick_call.h"

enum { WATCHERS = 8 };

static PyObject *tensor_type;
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

static bool is_flag(PyObject *value) {
    return value == Py_True || value == Py_False;
}

/* Put plain tensors into the first of `given`; 1 if they are and nothing intercepts calls, 0,
 * or -1 with an error. */
static int take_tensors(PyObject **given, PyObject *const *args, int count) {
    for (int i = 0; i < count; i++) {
        if ((PyObject *)Py_TYPE(args[i]) != tensor_type)
            return 0;
        given[i] = args[i];
    }
    const int seen = watched();
    return seen < 0 ? -1 : !seen;
}

/* The options of a call, in the order of their tuple: their places among the arguments of
 * attention() and of backward(). */
enum { OPTIONS = 6 };
static const int forward_places[OPTIONS] = {ARG_CAUSAL, ARG_SCALE,   ARG_WINDOW,
                                            ARG_ALIGN,  ARG_SOFTCAP, ARG_LAYOUT};
#define PLACE(which) (BACKWARD_FORWARD + (which)-ARG_CAUSAL)
static const int backward_places[OPTIONS] = {PLACE(ARG_CAUSAL),  PLACE(ARG_SCALE),
                                             PLACE(ARG_WINDOW),  PLACE(ARG_ALIGN),
                                             PLACE(ARG_SOFTCAP), BACKWARD_LAYOUT};

/* Put the options of a tuple, which may end early and hold None, into `given`; false if it is
 * no such tuple. */
static bool take_options(PyObject **given, const int *places, PyObject *options) {
    const Py_ssize_t count = PyTuple_Check(options) ? PyTuple_Size(options) : OPTIONS + 1;
    if (count > OPTIONS)
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *each = PyTuple_GetItem(options, i);
        given[places[i]] = each == Py_None ? NULL : each;
    }
    return true;
}

/* A backward pass without a row or a key has gradients of 0 and nothing to compute: attest.torch
 * makes them. */
static bool has_pairs(const att_problem *p) {
    return p->batch > 0 && p->seq_q > 0 && p->seq_k > 0;
}

/* attest.torch reports mistakes, in PyTorch's words. */
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
    if (is_flag(args[4]) && is_flag(args[5]) && take_tensors(c.given, args, 3) == 1 &&
        take_options(c.given, forward_places, args[3])) {
        c.given[ARG_RETURN_LSE] = args[5];
        if (!problem_build(&c) &&
            (args[4] == Py_True || c.problem.heads_q == c.problem.heads_kv) &&
            (args[5] == Py_False || has_pairs(&c.problem)))
            result = call_finish(&c);
    }
    call_drop(&c);
    return result ? result : passed();
}

PyObject *sdpa_backward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    enum { TENSORS = BACKWARD_D_O + 1 };
    backward_call b = {.forward = {.frame = NULL}};
    PyObject *result = NULL;
    if (count != TENSORS + 1) {
        PyErr_SetString(PyExc_TypeError, "sdpa_backward() takes seven arguments");
        return NULL;
    }
    if (take_tensors(b.given, args, TENSORS) == 1 &&
        take_options(b.given, backward_places, args[TENSORS]) &&
        !backward_build_given(&b, "sdpa_backward"))
        result = backward_finish(&b);
    backward_drop(&b);
    return result ? result : passed();
}
