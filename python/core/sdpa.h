/* sdpa.h: the common case of PyTorch's scaled_dot_product_attention and of attention() on its
 * tensors, without a step in Python. */
#ifndef ATTEST_PYTHON_SDPA_H
#define ATTEST_PYTHON_SDPA_H

#include "python/core/python_api.h"

/* (type, watchers): PyTorch's tensor type, and functions that must all be false, None or 0 in
 * the common case: they detect modes, transforms and casts that intercept calls. */
PyObject *sdpa_setup(PyObject *self, PyObject *args);

/* (query, key, value, options, enable_gqa, return_lse), by position: O, or (O, LSE); or None if
 * the call is not the common case, or is a mistake, which attest.torch then reports.
 * attest.Error if the machine refuses. `options` is a tuple (causal, scale, window, align,
 * softcap, layout) as attention() has them; it may end early. With return_lse, calls without a
 * row or a key are not the common case. */
PyObject *sdpa(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* (query, key, value, o, lse, d_o, options), by position: (d_q, d_k, d_v); or None as above. */
PyObject *sdpa_backward(PyObject *self, PyObject *const *args, Py_ssize_t count);

#endif
