/* moe_gpu_params.h: converts a moe problem to kernel parameters. */
#ifndef ATT_MOE_GPU_PARAMS_H
#define ATT_MOE_GPU_PARAMS_H

#include "attest.h"
#include "kernels/moe_params.h"

/* Everything except the pointers and the division of the work. */
void att_moe_params_of(att_moe_params *params, const att_moe_problem *p);

/* The tensors of a run. */
void att_moe_params_point(att_moe_params *params, const att_moe_args *a);

#endif
