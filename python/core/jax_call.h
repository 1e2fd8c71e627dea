/* jax_call.h: the operations as foreign functions of XLA, for attest.jax. They run without
 * Python: on XLA's threads, in compiled programs, on XLA's streams. */
#ifndef ATTEST_PYTHON_JAX_CALL_H
#define ATTEST_PYTHON_JAX_CALL_H

#include "python/core/python_api.h"

/* {operation: {"cpu": capsule, "CUDA": capsule}}: the handlers to register. A call has the
 * attribute "problem", the bytes of the operation's problem as 64-bit integers, as returned by
 * the functions here:
 *   attention  describe(); the arrays of the problem in the order of attention()'s arguments,
 *              results o and, with ATT_LSE, lse
 *   backward   describe_backward(); the same arrays, o, lse and d_o; the gradients that the
 *              problem asks for
 *   merge      describe_merge(); o of every part, lse of every part; o and lse
 *   moe        describe_moe(); the arrays of the problem in the order of moe()'s arguments; y,
 *              ids, weights and counts */
PyObject *jax_handlers(PyObject *self, PyObject *unused);

/* What the last such call ran, on any thread, in the form of last_launch(); or None. */
PyObject *jax_last_launch(PyObject *self, PyObject *unused);

#endif
