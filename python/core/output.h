/* output.h: where an answer goes: the caller's `out`, or what a new array is to look like; and what the caller gets. */
#ifndef ATTEST_PYTHON_OUTPUT_H
#define ATTEST_PYTHON_OUTPUT_H

#include "python/core/array_check.h"

/* Look into `out`, which must have this shape, lie on the device of `first` and be writable; its dtype may be any of three.
 * 0, or -1 with an error. tensor_drop() after use. */
int output_take(tensor *o, PyObject *out, const int64_t *shape, int ndim, const tensor *first);

/* Strides of a new output: dense, its last axis the innermost and the others in the order of those of `like`, so that a model
 * that has its rows before its heads or its batch need not copy it. Only for frameworks with an exchange table. */
void output_lay_out(int64_t *strides, const int64_t *shape, int ndim, const tensor *like);

/* What the caller gets of an array that was made for it. A new reference, or NULL with an error. */
PyObject *output_finish(const framework *frame, PyObject *made, att_dtype dtype);

/* (o, lse), or o alone where lse is NULL. Takes the references; NULL where o is NULL. */
PyObject *output_pair(PyObject *o, PyObject *lse);

#endif
