/* array_check.h: checks of arrays for any operation; every error names the argument and what
 * is expected. */
#ifndef ATTEST_PYTHON_ARRAY_CHECK_H
#define ATTEST_PYTHON_ARRAY_CHECK_H

#include "attest.h"
#include "python/core/tensor.h"

/* 0 if the library does not compute with that type. */
att_dtype array_dtype(const tensor *t);

/* "float32", "float16" or "bfloat16"; "" for another. */
const char *array_dtype_name(att_dtype dtype);

/* Raise that the dtype or the shape is wrong, and say what is expected. Returns -1. */
int array_wrong_type(const tensor *t, const char *fits);
int array_wrong_shape(const tensor *t, const char *fits);

/* Each returns 0, or -1 with an error: on the CPU or a GPU, and on the device of `first`; last
 * axis contiguous, no negative strides. */
int array_check_device(const tensor *t, const tensor *first);
int array_check_rows(const tensor *t);
int array_check_contiguous(const tensor *t,
                           const char *axis); /* the first half, with the name of the axis */
int array_check_forwards(const tensor *t);    /* only the second half */

/* Read `layout`, NULL for the default, as the axes of rows and heads of a 4-dimensional array.
 * Returns 0, or -1 with an error. */
int array_read_layout(PyObject *layout, int *axis_seq, int *axis_head);

/* The alignment in bytes, at most 16, of all addresses whose bits are or-ed here: a GPU has a
 * faster path for 16. */
static inline int64_t array_alignment(uintptr_t bits) {
    bits |= 16;
    return (int64_t)(bits & (~bits + 1));
}

#endif
