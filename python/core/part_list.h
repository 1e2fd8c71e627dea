/* part_list.h: the parts of a merge as one argument gives them: a list of arrays, or one array with the parts along axis 0. */
#ifndef ATTEST_PYTHON_PART_LIST_H
#define ATTEST_PYTHON_PART_LIST_H

#include "python/core/tensor.h"

enum { PART_NAME = 40 };

typedef struct part_list {
    const char *name; /* of the argument */
    Py_ssize_t count; /* 1 or more */
    tensor *parts;    /* `count`, each named as messages do: "parts_o[2]" */
    PyObject *first;  /* an array of them, borrowed from `keep` or from the caller */

    PyObject *keep;           /* a tuple of the listed arrays */
    tensor stack;             /* or the one array */
    char (*names)[PART_NAME]; /* of listed parts */
} part_list;

/* Look into `given`. A part has `least` axes or one more; `fits` says so in words. 0, or -1 with an error that names the
 * argument. part_list_drop() after use, whatever came of it. */
int part_list_read(part_list *list, const char *name, PyObject *given, int least,
                   const char *fits);
void part_list_drop(part_list *list);

#endif
