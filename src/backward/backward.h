/* backward.h: shared declarations of the backward operation. */
#ifndef ATT_BACKWARD_BACKWARD_H
#define ATT_BACKWARD_BACKWARD_H

#include "attention/problem.h"

/* Bytes of the tensors of the forward pass and of the gradients. */
typedef struct att_backward_extents {
    att_extents forward;
    int64_t d_o, d_q, d_k, d_v, d_bias;
} att_backward_extents;

att_status att_backward_problem_check(const void *problem, void *extents);

/* The type of d_bias. */
static inline att_dtype att_backward_bias_dtype(const att_problem *p) {
    return p->dtype_grad == ATT_F32 ? ATT_F32 : p->bias_dtype;
}

#endif
