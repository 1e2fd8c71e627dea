/* moe_gpu_params.h: a moe problem as its kernels read it. */
#ifndef ATT_MOE_GPU_PARAMS_H
#define ATT_MOE_GPU_PARAMS_H

#include "attest.h"
#include "kernels/moe_params.h"

/* All but the pointers and how the work is cut. */
void att_moe_params_of(att_moe_params *params, const att_moe_problem *p);

/* The tensors of a run. */
void att_moe_params_point(att_moe_params *params, const att_moe_args *a);

#endif
