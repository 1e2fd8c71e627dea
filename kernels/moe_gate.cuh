/* moe_gate.cuh: where the weights and biases of gate and up are stored. */
#ifndef ATT_MOE_GATE_CUH
#define ATT_MOE_GATE_CUH

#include "kernels/convert.cuh"
#include "kernels/moe_params.h"

/* The row of w1 or w3 for column `c` of h; biases are laid out the same way. */
DEVICE long long weight_row(const att_moe_params *p, int c, bool is_up) {
    if (!(p->flags & ATT_MOE_GATED) || p->gate == ATT_MOE_GATE_APART)
        return c;
    return p->gate == ATT_MOE_GATE_BY_TURNS ? 2LL * c + is_up : c + (is_up ? (long long)p->inner : 0);
}

DEVICE bool is_apart(const att_moe_params *p, bool is_up) {
    return is_up && p->gate == ATT_MOE_GATE_APART;
}

/* The bias of column `c` of gate or up; 0 if there is none. */
DEVICE float gate_bias(const att_moe_params *p, int expert, int c, bool is_up) {
    const void *bias = is_apart(p, is_up) ? p->b3 : p->b1;
    if (!bias || c >= p->inner)
        return 0.0f;
    return load_as_float(bias, expert * (is_apart(p, is_up) ? p->b3_expert : p->b1_expert) + weight_row(p, c, is_up),
                         p->dtype_bias);
}

#endif
