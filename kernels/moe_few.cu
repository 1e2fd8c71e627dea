/* moe_few.cu: the first product of a layer of experts with few tokens, and the activation
 * COMPUTES h = act(W1 x + b1, W3 x + b3) for the slots of an expert; persistent warps take (tile
 *          of up to TILE_M positions, column of h) in turn, or two columns without a gate
 * TILE     TILE_M positions x two rows of weights: gate and up of a column
 * THREADS  32 * WARPS; warps share nothing
 * FLOW     a warp loads STAGES chunks of 256 columns of its two rows, 16 bytes per lane, and
 *          multiplies them by the same columns of x, which stay in L1. The warps of an SM keep
 *          memory busy
 * NUMERICS float32 sums, h rounded to DTYPE. A row depends only on its token and the weights,
 *          not on its position
 * LIMITS   float16 and bfloat16; weights stored as (columns, depth); rows of x and of weights
 *          are whole vectors of 16 bytes
 * WHY      with few tokens time is that of reading the weights. Memory serves 512 consecutive
 *          bytes faster than rows of 64 bytes, as tiles for the tensor cores have them */
#include "kernels/convert.cuh"
#include "kernels/moe_activation.cuh"
#include "kernels/moe_few_rows.cuh"
#include "kernels/moe_gate.cuh"

/* The column of h of row r of an item, and whether the row belongs to `up`. */
DEVICE int column_of(const att_moe_params *p, int step, int r, bool *is_up) {
    *is_up = p->flags & ATT_MOE_GATED && r;
    return p->flags & ATT_MOE_GATED ? step : 2 * step + r;
}

DEVICE const half_bits *weights_of(const att_moe_params *p, int expert, int step, int r) {
    bool is_up;
    const int c = column_of(p, step, r, &is_up);
    const att_moe_matrix *m = is_apart(p, is_up) ? &p->w3 : &p->w1;
    return (const half_bits *)m->base + expert * m->expert + weight_row(p, c, is_up) * m->row;
}

DEVICE float bias_of(const att_moe_params *p, int expert, int step, int r) {
    bool is_up;
    const int c = column_of(p, step, r, &is_up);
    return gate_bias(p, expert, c, is_up);
}

DEVICE int row_of(const att_moe_params *p, int position, int slot) {
    (void)position;
    return slot / p->k;
}

DEVICE void finish(const att_moe_params *p, const few_item *item, float2 sum) {
    const long long row = (item->first + threadIdx.x % 32) * p->h_pitch;
    if (p->flags & ATT_MOE_GATED)
        store_from_float(p->h, row + item->step, DTYPE, activate(p, sum.x, sum.y));
    else
        *(unsigned *)((half_bits *)p->h + row + 2 * item->step) = pack_16(DTYPE, activate(p, sum.x, 0.0f), activate(p, sum.y, 0.0f));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) KERNEL(const __grid_constant__ att_moe_params params) {
    const few_operands o = {params.x, params.x_row, params.hidden, params.up_steps};
    wait_for_previous_kernel();
    allow_next_kernel();
    multiply_items(&params, &o);
}
