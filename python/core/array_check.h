/* array_check.h: what is asked of arrays whatever the operation; every mistake names the argument and what would fit. */
#ifndef ATTEST_PYTHON_ARRAY_CHECK_H
#define ATTEST_PYTHON_ARRAY_CHECK_H

#include "attest.h"
#include "python/core/tensor.h"

/* 0 where the type is none that the library computes with. */
att_dtype array_dtype(const tensor *t);

/* "float32", "float16" or "bfloat16"; "" for another. */
const char *array_dtype_name(att_dtype dtype);

/* Raise that the dtype or the shape does not fit, and say what would. -1. */
int array_wrong_type(const tensor *t, const char *fits);
int array_wrong_shape(const tensor *t, const char *fits);

/* Each 0, or -1 with an error: on the CPU or a GPU, and on the device of `first`; the last axis contiguous, none backwards. */
int array_check_device(const tensor *t, const tensor *first);
int array_check_rows(const tensor *t);
int array_check_contiguous(const tensor *t,
                           const char *axis); /* the first half, the axis in words */
int array_check_forwards(const tensor *t);    /* the second half of that alone */

/* `layout`, NULL for the default, as the axes of rows and heads of a 4-dimensional array. 0, or -1 with an error. */
int array_read_layout(PyObject *layout, int *axis_seq, int *axis_head);

/* Bytes to which all addresses lie whose bits are or-ed here, at most 16: a GPU takes a faster path where it is 16. */
static inline int64_t array_alignment(uintptr_t bits) {
    bits |= 16;
    return (int64_t)(bits & (~bits + 1));
}

#endif
