/* moe_few_down.cu: the second product of a layer of experts with few tokens
 * COMPUTES part = W2 h + b2 for the slots of an expert, in float32; persistent warps take (tile
 *          of up to TILE_M positions, two columns of y) in turn
 * TILE     as moe_few.cu
 * NUMERICS float32 sums, stored unrounded: moe_combine adds up a token's parts */
#include "kernels/convert.cuh"
#include "kernels/moe_few_rows.cuh"

DEVICE const half_bits *weights_of(const att_moe_params *p, int expert, int step, int r) {
    return (const half_bits *)p->w2.base + expert * p->w2.expert + (2 * step + r) * p->w2.row;
}

DEVICE float bias_of(const att_moe_params *p, int expert, int step, int r) {
    return p->b2 ? load_as_float(p->b2, expert * p->b2_expert + 2 * step + r, p->dtype_bias) : 0.0f;
}

DEVICE int row_of(const att_moe_params *p, int position, int slot) {
    (void)p, (void)slot;
    return position;
}

DEVICE void finish(const att_moe_params *p, const few_item *item, float2 sum) {
    *(float2 *)((float *)p->parts + item->slot * p->part_pitch + 2 * item->step) = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) KERNEL(const __grid_constant__ att_moe_params params) {
    const few_operands o = {params.h, params.h_pitch, params.inner, params.down_steps};
    allow_next_kernel();
    multiply_items(&params, &o);
    wait_for_previous_kernel();
}
