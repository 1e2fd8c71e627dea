/* arguments.c: the arguments of a call by name. Not PyArg_Parse...: that takes a microsecond
 * for so many names. */
#include "python/core/arguments.h"

static int intern_names(const argument_table *t) {
    for (int i = 0; i < t->count; i++)
        if (!t->interned[i] && !(t->interned[i] = PyUnicode_InternFromString(t->names[i])))
            return -1;
    return 0;
}

/* Names in source code are interned, so that comparing pointers usually suffices. */
static int find_name(const argument_table *t, PyObject *name) {
    for (int i = 0; i < t->count; i++)
        if (t->interned[i] == name)
            return i;
    for (int i = 0; i < t->count; i++)
        if (!PyUnicode_CompareWithASCIIString(name, t->names[i]))
            return i;
    return -1;
}

/* `names` is a tuple; `values` are in its order. */
static int read_named(PyObject **given, const argument_table *t, const char *function,
                      PyObject *names, PyObject *const *values) {
    const Py_ssize_t count = PyTuple_Size(names);
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *name = PyTuple_GetItem(names, n), *value = values[n];
        int i = find_name(t, name);
        if (i < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected argument '%S'", function,
                         name);
            return -1;
        }
        if (given[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got two values for %s", function, t->names[i]);
            return -1;
        }
        given[i] = value;
    }
    return 0;
}

int arguments_read(PyObject **given, const argument_table *t, const char *function,
                   PyObject *const *args, Py_ssize_t count, PyObject *names) {
    if (intern_names(t))
        return -1;
    if (count > t->positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes %s by position (%zd given); name the others",
                     function, t->by_position, count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        given[i] = args[i];
    if (names && read_named(given, t, function, names, args + count))
        return -1;
    for (int i = 0; i < t->count; i++)
        if (given[i] == Py_None)
            given[i] = NULL;
    for (int i = 0; i < t->positional; i++)
        if (!given[i]) {
            PyErr_Format(PyExc_TypeError, "%s() needs %s", function, t->names[i]);
            return -1;
        }
    return 0;
}

int arguments_number(float *out, PyObject *given, const char *name) {
    if (!given)
        return 0;
    const double value = PyFloat_AsDouble(given);
    if (value == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s is %R: a number is needed", name, given);
        return -1;
    }
    *out = (float)value;
    return 0;
}
