/* part_list.h: the parts of a merge as given in one argument: a list of arrays, or one array
 * with the parts along axis 0. */
#ifndef ATTEST_PYTHON_PART_LIST_H
#define ATTEST_PYTHON_PART_LIST_H

#include "python/core/tensor.h"

enum { PART_NAME = 40 };

typedef struct part_list {
    const char *name; /* of the argument */
    Py_ssize_t count; /* 1 or more */
    tensor *parts;    /* `count`, each with its name for messages: "parts_o[2]" */
    PyObject *first;  /* one of the arrays, borrowed from `keep` or from the caller */

    PyObject *keep;           /* a tuple of the listed arrays */
    tensor stack;             /* or the one array */
    char (*names)[PART_NAME]; /* of listed parts */
} part_list;

/* Open `given`. A part has `least` axes or one more; `fits` describes that in words. Returns
 * 0, or -1 with an error that names the argument. Call part_list_drop() afterwards in either
 * case. */
int part_list_read(part_list *list, const char *name, PyObject *given, int least,
                   const char *fits);
void part_list_drop(part_list *list);

#endif
