/* moe_maps.h: tensor maps of the weights and h of experts, for Hopper's copy engine. */
#ifndef ATT_MOE_MAPS_H
#define ATT_MOE_MAPS_H

#include "attest.h"
#include "cuda/function.h"
#include "cuda/row.h"
#include "kernels/moe_sm90_params.h"

typedef struct att_moe_maps {
    att_tensor_map w1, w3; /* for moe_sm90; the same if gate and up are halves of w1 */
    att_tensor_map h, w2;  /* for moe_sm90_down */
} att_moe_maps;

/* At plan time, for tiles of these rows. Errors: ATT_E_CUDA. */
att_status att_moe_maps_encode(att_moe_maps *maps, const att_cuda_driver *cu,
                               const att_moe_problem *p, const att_cuda_kernel *up,
                               const att_cuda_kernel *down);

/* Set the tensors of a run. */
att_status att_moe_maps_point(att_moe_maps *maps, const att_moe_params *params,
                              const att_cuda_function *up);

#endif
