/* moe_sm80_down.cu: the second product of a layer of experts
 * COMPUTES part = W2 h + b2 for the slots of an expert, in float32; one block per (tile of
 *          TILE_M positions, TILE_N columns of y)
 * TILE     as moe_sm80.cu, with TILE_N rows of weights
 * NUMERICS float32 sums, stored unrounded: moe_combine adds up a token's parts */
#define B_ROWS TILE_N
#include "kernels/convert.cuh"
#include "kernels/moe_tile.cuh"
#include "kernels/programmatic_launch.cuh"

/* Store the addresses of the rows that the block multiplies. */
DEVICE void point_rows(const att_moe_params *p, const tile_work *w, const half_bits **rows) {
    const half_bits *base = (const half_bits *)p->w2.base + w->expert * p->w2.expert;
    const bool by_depth = p->flags & ATT_MOE_KN;
    for (int i = threadIdx.x; i < TILE_M; i += THREADS)
        rows[i] = i < w->count ? (const half_bits *)p->h + (w->first + i) * p->h_pitch : 0;
    for (int i = threadIdx.x; i < (by_depth ? B_ROWS / 8 : B_ROWS); i += THREADS) {
        const int c = w->step * TILE_N + (by_depth ? i * 8 : i);
        rows[TILE_M + i] = c < p->hidden ? base + (by_depth ? c : c * p->w2.row) : 0;
    }
}

DEVICE float bias_of(const att_moe_params *p, const tile_work *w, int c) {
    return p->b2 && c < p->hidden ? load_as_float(p->b2, w->expert * p->b2_expert + c, p->dtype_bias) : 0.0f;
}

/* Rows of parts are padded to whole pairs. */
DEVICE void store_parts(const att_moe_params *p, const tile_work *w, float sum[M_TILES][N_TILES][4]) {
    const int lane = threadIdx.x % 32, column0 = w->step * TILE_N + warp_column() + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int r = warp_row() + m * 16 + half * 8 + lane / 4;
            if (r >= w->count)
                continue;
            float *part = (float *)p->parts + p->slot_at[w->first + r] * p->part_pitch;
#pragma unroll
            for (int n = 0; n < N_TILES; n++) {
                const int c = column0 + n * 8;
                if (c < p->hidden)
                    *(float2 *)(part + c) = make_float2(sum[m][n][2 * half] + bias_of(p, w, c),
                                                        sum[m][n][2 * half + 1] + bias_of(p, w, c + 1));
            }
        }
}

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL(const __grid_constant__ att_moe_params params) {
    extern __shared__ __align__(128) char shared[];
    const att_moe_params *p = &params;
    wait_for_previous_kernel();
    allow_next_kernel();
    tile_work w;
    if (!find_work(&w, p, p->down_steps, blockIdx.x))
        return;
    const half_bits **rows = (const half_bits **)(shared + ROWS_AT);
    point_rows(p, &w, rows);
    const tile_operands o = {rows,
                             (const half_bits *)p->h,
                             p->inner,
                             true,
                             (p->flags & ATT_MOE_VECTOR_W2) != 0,
                             (p->flags & ATT_MOE_KN) != 0,
                             p->w2.row,
                             p->w2.row,
                             p->hidden - w.step * TILE_N,
                             1};
    float sum[M_TILES][N_TILES][4];
    multiply(sum, &o, shared_address(shared));
    store_parts(p, &w, sum);
}
