/* backward_params.h: a problem and its arguments in the form that the backward kernels take. */
#ifndef ATT_BACKWARD_PARAMS_H
#define ATT_BACKWARD_PARAMS_H

#include "attest.h"
#include "kernels/bwd_params.h"

/* Everything of a checked problem but the pointers and what depends on tiles. */
void att_backward_params_of(att_bwd_params *out, const att_problem *p);

/* The tensors of a run. */
void att_backward_params_point(att_bwd_params *params, const att_args *a);

/* Every row of Q, K, V, O and dO starts at a multiple of 16 bytes; else *field is what keeps them from it, and the bytes
 * that they do start at. */
size_t att_backward_row_alignment(const att_problem *p, const char **field);

#endif
