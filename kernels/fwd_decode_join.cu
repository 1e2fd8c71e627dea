/* fwd_decode_join.cu: joins the parts of tiles of rows that fwd_decode_shares cut
 * COMPUTES O and LSE from the parts (fwd_join_parts.cuh) and the sink; one warp per share and row
 *          of a tile. A warp whose share leaves no tile unfinished ends at once
 * THREADS  32: most blocks end at once, and so small ones are all resident at once
 * SMEM     none
 * FLOW     the block starts while the shares are being finished, and waits for them; the next
 *          kernel may start while this one runs
 * NUMERICS float32 in a fixed order: the same bits on every run; a row that is not finite is
 *          recomputed in float64
 * LIMITS   d_v <= D_V, a multiple of 4 */
#include "kernels/fwd_join_parts.cuh"
#include "kernels/fwd_shares_params.h"
#include "kernels/programmatic_launch.cuh"

enum { BATCH = 8 /* parts whose loads are in flight at once */ };

/* The parts of row `row` of the tile that a share opens. The first is at the end of this share, the
 * others are at the beginning of theirs. */
DEVICE row_parts parts_of(const att_fwd_shares_params *params, int share, int count, int row) {
    const att_fwd_params *p = &params->fwd;
    const long long index = (2ll * share + 1) * params->tile_rows + row;
    return {p->partial_o + index * p->d_v, (const float2 *)p->partial_sums + index,
            2 * params->tile_rows, params->tile_rows, count, p->d_v, true};
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 16)
    KERNEL(const __grid_constant__ att_fwd_shares_params params) {
    const att_fwd_params *p = &params.fwd;
    allow_next_kernel(); /* it waits for this one before it writes anything */
    wait_for_previous_kernel();
    const int4 opened = __ldcg((const int4 *)(params.opened + blockIdx.x));
    const int batch = opened.x, head_kv = opened.y, r = opened.z + blockIdx.y;
    if (opened.w == 0)
        return;
    /* Rows past the tile's last are undefined and not written. */
    const row_parts parts = parts_of(&params, blockIdx.x, opened.w, blockIdx.y);
    joined_row j = begin_row(&parts);
    const sequence s = sequence_of(p, batch);
#pragma unroll 1
    for (int first = 0; first < parts.count; first += BATCH) {
        float4 x[BATCH][QUADS];
        load_parts(&parts, x, BATCH, first, 0, 1);
        add_parts(&parts, &j, x, BATCH, first, 0, 1);
    }
    const int position = divide(r, &p->by_group);
    if (position < s.len_q)
        finish_row(p, &s, head_kv * p->group + r - position * p->group, position, &j.m, p->d_v);
}
