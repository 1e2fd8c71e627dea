/* options_build.c: the arguments that are numbers, strings and pairs. */
#include "python/core/arguments.h"
#include "python/core/problem_build.h"

#include <string.h>

static int read_number(float *out, const call *c, argument which) {
    return arguments_number(out, c->given[which], argument_names[which]);
}

/* 1 for top-left, 2 for bottom-right, as in att_causal and att_align; -1 with an error. */
static int read_alignment(PyObject *value, const char *name, const char *others) {
    if (PyUnicode_Check(value)) {
        if (!PyUnicode_CompareWithASCIIString(value, "top-left"))
            return ATT_CAUSAL_TOP_LEFT;
        if (!PyUnicode_CompareWithASCIIString(value, "bottom-right"))
            return ATT_CAUSAL_BOTTOM_RIGHT;
    }
    PyErr_Format(PyExc_ValueError, "%s is %R; expected %s'top-left' or 'bottom-right'", name,
                 value, others);
    return -1;
}

/* Whether it is a bool of Python or of NumPy, whose type has the same name or an underscore. */
static bool is_bool(PyObject *value) {
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
    const bool is = name && (PyUnicode_CompareWithASCIIString(name, "bool") == 0 ||
                             PyUnicode_CompareWithASCIIString(name, "bool_") == 0);
    Py_XDECREF(name);
    PyErr_Clear();
    return is;
}

/* A plain True is unambiguous only if there are as many queries as keys, or if their positions
 * are given. */
static int read_causal(call *c) {
    PyObject *value = c->given[ARG_CAUSAL];
    if (!value || value == Py_False)
        return 0;
    if (value != Py_True && !is_bool(value)) {
        int side = read_alignment(value, "causal", "True, False, ");
        c->problem.causal = side < 0 ? ATT_CAUSAL_NONE : (att_causal)side;
        return side < 0 ? -1 : 0;
    }
    const int wanted = PyObject_IsTrue(value);
    if (wanted <= 0)
        return wanted;
    bool placed = c->given[ARG_Q_OFFSET] || c->given[ARG_K_OFFSET];
    bool same_lengths = c->given[ARG_CU_SEQLENS_Q] == c->given[ARG_CU_SEQLENS_K] &&
                        !c->given[ARG_LENS_K] && c->problem.seq_q == c->problem.seq_k;
    if (!same_lengths && !placed) {
        PyErr_Format(
            PyExc_ValueError,
            "causal is True, but q has %lld rows and k %lld%s: say 'top-left' or "
            "'bottom-right'",
            (long long)c->problem.seq_q, (long long)c->problem.seq_k,
            c->given[ARG_CU_SEQLENS_Q] || c->given[ARG_CU_SEQLENS_K] || c->given[ARG_LENS_K]
                ? " at most"
                : "");
        return -1;
    }
    c->problem.causal = ATT_CAUSAL_TOP_LEFT;
    return 0;
}

static int read_align(call *c) {
    PyObject *value = c->given[ARG_ALIGN];
    if (!value)
        return 0;
    int side = read_alignment(value, "align", "");
    c->problem.align = side < 0 ? ATT_ALIGN_UNSET : (att_align)side;
    return side < 0 ? -1 : 0;
}

static int read_side(int64_t *out, PyObject *side) {
    *out = side == Py_None ? -1 : PyLong_AsLongLong(side);
    return PyErr_Occurred() || *out < -1 ? -1 : 0;
}

static int read_window(call *c) {
    PyObject *value = c->given[ARG_WINDOW], *sides[2] = {NULL, NULL};
    if (!value)
        return 0;
    int failed = !PySequence_Check(value) || PySequence_Size(value) != 2;
    for (int i = 0; i < 2 && !failed; i++)
        failed = !(sides[i] = PySequence_GetItem(value, i));
    failed = failed || read_side(&c->problem.window_left, sides[0]) ||
             read_side(&c->problem.window_right, sides[1]);
    Py_XDECREF(sides[0]);
    Py_XDECREF(sides[1]);
    if (failed) {
        PyErr_Clear();
        PyErr_Format(
            PyExc_ValueError,
            "window is %R; expected a pair (left, right) of keys, None or -1 for no limit",
            value);
        return -1;
    }
    return 0;
}

int options_build(call *c) {
    if (c->given[ARG_RETURN_LSE]) {
        int wanted = PyObject_IsTrue(c->given[ARG_RETURN_LSE]);
        if (wanted < 0)
            return -1;
        c->return_lse = wanted;
    }
    return read_causal(c) || read_align(c) || read_window(c) ||
                   read_number(&c->problem.scale, c, ARG_SCALE) ||
                   read_number(&c->problem.softcap, c, ARG_SOFTCAP)
               ? -1
               : 0;
}
