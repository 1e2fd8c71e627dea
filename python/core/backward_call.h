/* backward_call.h: a call of backward(), from its arguments to the gradients. */
#ifndef ATTEST_PYTHON_BACKWARD_CALL_H
#define ATTEST_PYTHON_BACKWARD_CALL_H

#include "python/core/problem_build.h"

/* The arguments of backward(), in the order of their names in backward_arguments.c. */
typedef enum backward_argument {
    BACKWARD_Q,
    BACKWARD_K,
    BACKWARD_V,
    BACKWARD_O,
    BACKWARD_LSE,
    BACKWARD_D_O,
    BACKWARD_FORWARD, /* the first of those that attention() has too */
    BACKWARD_LAYOUT = BACKWARD_FORWARD + ARG_PAGE_TABLE - ARG_CAUSAL + 1,
    BACKWARD_D_BIAS,
    BACKWARD_D_SINKS,
    BACKWARD_D_ALIBI,
    BACKWARD_GRAD_DTYPE,
    BACKWARD_OUT,
    BACKWARD_COUNT
} backward_argument;

/* The gradients, in the order of the answer. */
typedef enum gradient {
    GRADIENT_Q,
    GRADIENT_K,
    GRADIENT_V,
    GRADIENT_BIAS,
    GRADIENT_SINKS,
    GRADIENT_ALIBI,
    GRADIENT_COUNT
} gradient;

typedef struct backward_call {
    PyObject *given[BACKWARD_COUNT]; /* borrowed from the caller; NULL if absent or None */
    call forward;                    /* the arguments that attention() has, problem and args */
    tensor d_o;                      /* o and the LSE are those of `forward` */
    tensor outputs[GRADIENT_COUNT];
    PyObject *objects[GRADIENT_COUNT]; /* owned; NULL: not asked for */
} backward_call;

/* From the arguments to the problem: forward's, then o, the LSE and d_o, and the requested
 * gradients. Returns 0, or -1 with an error that names the argument. Call backward_drop()
 * afterwards in either case. */
int backward_build(backward_call *b, const char *function, PyObject *const *args,
                   Py_ssize_t count, PyObject *names);

/* The same for arguments that are in `given` already. */
int backward_build_given(backward_call *b, const char *function);
void backward_drop(backward_call *b);

/* Put the arrays of the gradients into the problem and its pointers: the caller's, or new
 * ones. */
int gradients_build(backward_call *b);

/* From the problem to the gradients: outputs, plan, run. Returns a new reference, or NULL with
 * an error. */
PyObject *backward_finish(backward_call *b);

/* The same for a call that is only described: contiguous, without memory. */
void gradients_describe(backward_call *b);

/* Whether a gradient is requested; its name; the shape of an output, with the tensor that it is
 * the gradient of as the result. */
bool gradient_wanted(const backward_call *b, gradient which);
extern const char *const gradient_names[GRADIENT_COUNT];
const tensor *gradient_like(const backward_call *b, gradient which);
att_dtype gradient_dtype(const backward_call *b, gradient which);

/* The arguments of backward() by name. */
extern const char *const backward_names[BACKWARD_COUNT];

PyObject *backward(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* Which kernel would run this call of backward(), and why each other one would not. */
PyObject *explain_backward(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names);

/* The same arguments with arrays as (dtype, device, shape): (shapes of the gradients, bytes of
 * the problem). */
PyObject *describe_backward(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names);

#endif
