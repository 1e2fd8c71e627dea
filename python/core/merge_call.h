/* merge_call.h: a call of merge(), from its arguments to the answer. */
#ifndef ATTEST_PYTHON_MERGE_CALL_H
#define ATTEST_PYTHON_MERGE_CALL_H

#include "attest.h"
#include "python/core/part_list.h"

typedef enum merge_argument {
    MERGE_PARTS_O,
    MERGE_PARTS_LSE,
    MERGE_LAYOUT,
    MERGE_OUT,
    MERGE_RETURN_LSE,
    MERGE_COUNT
} merge_argument;

/* Strides of a part: of its O and of its log-sums. */
typedef struct merge_strides {
    att_strides o, lse;
} merge_strides;

typedef struct merge_call {
    PyObject *given[MERGE_COUNT]; /* borrowed from the caller; NULL if absent or None */
    framework *frame;             /* of the first part */
    part_list parts_o, parts_lse;
    int axis_seq, axis_head; /* for an O with four axes; one with three is (rows, heads, d) */
    bool return_lse;
    att_merge_problem shape; /* sizes and dtypes; no strides, no parts */
    tensor o, lse;
    PyObject *o_object, *lse_object; /* owned */
} merge_call;

/* Open the parts and check them against each other. Returns 0, or -1 with an error that names
 * the argument. */
int merge_parts_check(merge_call *m);

/* Strides of a part, or of the outputs; 0 for axes of size 1. */
merge_strides merge_strides_of(const merge_call *m, const tensor *o, const tensor *lse);

/* Compute: one launch, or several if there are more parts than one launch takes, or parts with
 * different layouts. Returns 0, or -1. */
int merge_steps_run(merge_call *m);

/* merge(parts_o, parts_lse, *, layout='bhsd', out=None, return_lse=True) */
PyObject *merge(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* (parts, batch, heads, rows, d): the bytes of the problem for float32 parts, all arrays
 * contiguous in this order. */
PyObject *describe_merge(PyObject *self, PyObject *args);

#endif
