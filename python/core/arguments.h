/* arguments.h: the arguments of a METH_FASTCALL | METH_KEYWORDS by their names. */
#ifndef ATTEST_PYTHON_ARGUMENTS_H
#define ATTEST_PYTHON_ARGUMENTS_H

#include "python/core/python_api.h"

typedef struct argument_table {
    const char *const *names;
    PyObject **interned; /* as many as names; filled at first use */
    int count;
    int positional;          /* the first so many, which must be given */
    const char *by_position; /* these in words: "q, k and v" */
} argument_table;

/* Into `given`: `count` by position, then those that the tuple `names`, if any, names; borrowed, NULL where absent or
 * None. 0, or -1 with TypeError. */
int arguments_read(PyObject **given, const argument_table *table, const char *function,
                   PyObject *const *args, Py_ssize_t count, PyObject *names);

/* `given` as a number; left as it is where that is NULL. 0, or -1 with TypeError that names the argument. */
int arguments_number(float *out, PyObject *given, const char *name);

#endif
