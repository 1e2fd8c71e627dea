/* output.h: the destination of an answer: the caller's `out`, or the layout of a new array; and
 * what the caller gets. */
#ifndef ATTEST_PYTHON_OUTPUT_H
#define ATTEST_PYTHON_OUTPUT_H

#include "python/core/array_check.h"

/* Open `out`, which must have this shape, be on the device of `first` and be writable; its
 * dtype may be any of the three. Returns 0, or -1 with an error. Call tensor_drop()
 * afterwards. */
int output_take(tensor *o, PyObject *out, const int64_t *shape, int ndim, const tensor *first);

/* Strides of a new output: dense, its last axis innermost and the others in the order of those
 * of `like`, so that a model with rows before heads, or before the batch, need not copy it.
 * Only for frameworks with an exchange table. */
void output_lay_out(int64_t *strides, const int64_t *shape, int ndim, const tensor *like);

/* Convert an array that was made for the caller. Returns a new reference, or NULL with an
 * error. */
PyObject *output_finish(const framework *frame, PyObject *made, att_dtype dtype);

/* (o, lse), or only o if lse is NULL. Takes the references; NULL if o is NULL. */
PyObject *output_pair(PyObject *o, PyObject *lse);

#endif
