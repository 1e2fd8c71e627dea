/* jax_call.h: attention and its gradients as foreign functions of XLA, for attest.jax. It runs without Python: on XLA's threads, in compiled
 * programs, on XLA's streams. */
#ifndef ATTEST_PYTHON_JAX_CALL_H
#define ATTEST_PYTHON_JAX_CALL_H

#include "python/core/python_api.h"

/* {"cpu": capsule, "CUDA": capsule}: the handlers to register. A call has the arrays of the problem in the order of
 * attention()'s arguments, results o and, with ATT_LSE, lse, and the attribute "problem": the bytes of an att_problem, as
 * describe() gives them, as 64-bit integers. */
PyObject *jax_handlers(PyObject *self, PyObject *unused);

/* The same of its gradients: the arrays are followed by o, lse and d_o, the results are d_q, d_k, d_v and those that the problem
 * asks for, which describe_backward() gives. */
PyObject *jax_backward_handlers(PyObject *self, PyObject *unused);

/* What the latest such call ran, of any thread, as last_launch() gives it; or None. */
PyObject *jax_last_launch(PyObject *self, PyObject *unused);

#endif
