/* backward_params.h: converts a problem and its arguments to the parameters of the backward
 * kernels. */
#ifndef ATT_BACKWARD_PARAMS_H
#define ATT_BACKWARD_PARAMS_H

#include "attest.h"
#include "kernels/bwd_params.h"

/* Everything in a checked problem except the pointers and what depends on tiles. */
void att_backward_params_of(att_bwd_params *out, const att_problem *p);

/* The tensors of a run. */
void att_backward_params_point(att_bwd_params *params, const att_args *a);

/* The alignment in bytes of every row of Q, K, V, O and dO. If it is below 16, *field is the
 * cause. */
size_t att_backward_row_alignment(const att_problem *p, const char **field);

#endif
