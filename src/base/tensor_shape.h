/* tensor_shape.h: tensors of up to four dimensions, checked and measured. */
#ifndef ATT_BASE_TENSOR_SHAPE_H
#define ATT_BASE_TENSOR_SHAPE_H

#include "attest.h"

/* Sizes and element strides, outermost first: batch, head, row, col. */
typedef struct att_shape {
    const char *name; /* the field of the problem; errors name NAME.row */
    int64_t size[4], stride[4];
    size_t bytes; /* of an element */
} att_shape;

att_shape att_shape_of(const char *name, int64_t batch, int64_t heads, int64_t rows,
                       int64_t cols, const att_strides *st, size_t bytes);

/* Strides not negative; *extent receives the bytes spanned, 0 for an empty tensor. */
att_status att_shape_measure(const att_shape *s, int64_t *extent);

/* The innermost dimension has stride 1. */
att_status att_shape_contiguous(const att_shape *s);

/* No two elements share memory, as those of an output must not. */
att_status att_shape_disjoint(const att_shape *s);

#endif
