/* moe_call.h: a call of moe(), from its arguments to the answer. */
#ifndef ATTEST_PYTHON_MOE_CALL_H
#define ATTEST_PYTHON_MOE_CALL_H

#include "attest.h"
#include "python/core/output.h"

/* Arrays first. */
typedef enum moe_argument {
    MOE_X,
    MOE_W1,
    MOE_W2,
    MOE_LOGITS,
    MOE_IDS,
    MOE_WEIGHTS,
    MOE_W3,
    MOE_B1,
    MOE_B2,
    MOE_B3,
    MOE_CORRECTION,
    MOE_MASK,
    MOE_ARRAYS,
    MOE_TOP_K = MOE_ARRAYS,
    MOE_ACTIVATION,
    MOE_ROUTING,
    MOE_RENORMALISE,
    MOE_SCALING,
    MOE_ALPHA,
    MOE_LIMIT,
    MOE_GROUPS,
    MOE_GROUPS_KEPT,
    MOE_INTERLEAVED,
    MOE_TRANSPOSED,
    MOE_EXPERTS,
    MOE_FIRST_EXPERT,
    MOE_OUT,
    MOE_RETURN_ROUTING,
    MOE_COUNT
} moe_argument;

/* The outputs for the caller. */
typedef enum moe_output {
    MOE_Y,
    MOE_OUT_IDS,
    MOE_OUT_WEIGHTS,
    MOE_OUT_COUNTS,
    MOE_OUTPUTS
} moe_output;

typedef struct moe_call {
    PyObject *given[MOE_COUNT]; /* borrowed from the caller; NULL if absent or None */
    framework *frame;           /* of x */
    bool described;             /* arrays are given as (dtype, device, shape), without memory */
    tensor array[MOE_ARRAYS];   /* those that are given */
    bool return_routing;
    att_moe_problem problem;
    tensor output[MOE_OUTPUTS];
    PyObject *object[MOE_OUTPUTS]; /* owned */
} moe_call;

extern const char *const moe_argument_names[MOE_COUNT];

/* Open the arrays, check them against each other, and make the problem from them and the
 * options. Returns 0, or -1 with an error that names the argument. */
int moe_problem_build(moe_call *m);

/* moe(x, w1, w2, *, ...) */
PyObject *moe(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* The same for arrays that are only described: ([(shape, dtype)] of y, ids, weights and counts,
 * the bytes of the problem). */
PyObject *describe_moe(PyObject *self, PyObject *const *args, Py_ssize_t count,
                       PyObject *names);

#endif
