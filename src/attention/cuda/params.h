/* params.h: converts a problem and its arguments to kernel parameters. */
#ifndef ATT_CUDA_PARAMS_H
#define ATT_CUDA_PARAMS_H

#include "attest.h"
#include "cuda/divisor.h"
#include "kernels/fwd_params.h"

/* Everything in a checked problem except the pointers, uncut: splits = 1, no row blocks. */
void att_cuda_params_of(att_fwd_params *out, const att_problem *p);

/* The pointers of a run. */
void att_cuda_params_point(att_fwd_params *params, const att_args *a);

#endif
