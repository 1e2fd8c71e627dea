/* moe_sm90_params.h: parameters that the host passes by value to moe_sm90 and moe_sm90_down. */
#ifndef ATT_MOE_SM90_PARAMS_H
#define ATT_MOE_SM90_PARAMS_H

#include "kernels/moe_params.h"
#include "kernels/tensor_map.h"

typedef struct att_moe_sm90_params {
    att_moe_params moe;
    att_tensor_map h;  /* moe_sm90_down: (inner, positions), boxes of 64 x 16 */
    att_tensor_map w;  /* (depth, rows, experts), boxes of 64 x TILE_N; by turns, gate alone */
    att_tensor_map w3; /* moe_sm90 only: up, as w; equals w if gate and up are halves of it */
} att_moe_sm90_params;

#endif
