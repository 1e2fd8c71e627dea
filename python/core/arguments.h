/* arguments.h: the arguments of a METH_FASTCALL | METH_KEYWORDS function by name. */
#ifndef ATTEST_PYTHON_ARGUMENTS_H
#define ATTEST_PYTHON_ARGUMENTS_H

#include "python/core/python_api.h"

typedef struct argument_table {
    const char *const *names;
    PyObject **interned; /* as many as names; filled at first use */
    int count;
    int positional;          /* the number of leading arguments, which are required */
    const char *by_position; /* their names for messages: "q, k and v" */
} argument_table;

/* Fill `given`: `count` arguments by position, then those named by the tuple `names`, if any;
 * borrowed, NULL if absent or None. Returns 0, or -1 with TypeError. */
int arguments_read(PyObject **given, const argument_table *table, const char *function,
                   PyObject *const *args, Py_ssize_t count, PyObject *names);

/* `given` as a number; *out is unchanged if it is NULL. Returns 0, or -1 with TypeError that
 * names the argument. */
int arguments_number(float *out, PyObject *given, const char *name);

#endif
