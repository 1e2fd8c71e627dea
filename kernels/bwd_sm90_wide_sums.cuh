/* bwd_sm90_wide_sums.cuh: the sums of dQ of a tile of rows as bwd_sm90_wide leaves them: halves
 * of panels, each in the layout in which a warpgroup held it. Here the first warpgroup has the
 * first half of every panel. */
#ifndef ATT_BWD_SM90_WIDE_SUMS_CUH
#define ATT_BWD_SM90_WIDE_SUMS_CUH

#include "kernels/bwd_sm90_row_tiles.cuh"
#include "kernels/panels.cuh"
#include "kernels/warpgroup.cuh"

#define ROWS_QUADS     (4 * QK_PANELS) /* groups of four registers per thread */
#define ROWS_SUM_COUNT (64 * 64 * QK_PANELS)

/* Add up the sums of the sets, in order. Other SMs may just have written them, so the loads
 * bypass L1. */
DEVICE void load_sums(float4 sum[ROWS_QUADS], const att_bwd_params *p, const row_tile *t,
                      int thread) {
    const int first = first_tile_of(&p->fwd, &t->s, t->tile),
              end = end_tile_of(&p->fwd, &t->s, t->tile);
    const float4 *from = (const float4 *)(p->d_q_sums + first_sum(p, t) * ROWS_SUM_COUNT) +
                         thread / WARPGROUP * (4 * WARPGROUP) + thread % WARPGROUP;
#pragma unroll
    for (int i = 0; i < ROWS_QUADS; i++)
        sum[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int begin = 0; begin < ROWS_QUADS; begin += ROWS_QUADS / 2) /* in two halves */
        for (int set = 0; set < p->turn_count; set++)
            if (tiles_in_set(set, p->turn_count, first, end) > 0)
#pragma unroll
                for (int i = begin; i < begin + ROWS_QUADS / 2; i++) {
                    const float4 x = __ldcg(from + set * (ROWS_SUM_COUNT / 4) +
                                            (i / 4 * 8 + i % 4) * WARPGROUP);
                    sum[i] = make_float4(sum[i].x + x.x, sum[i].y + x.y, sum[i].z + x.z,
                                         sum[i].w + x.w);
                }
}

/* A thread's first row of the tile. Columns of its quads are counted from the tile's first. */
DEVICE int row_of_thread(int thread) {
    return thread % WARPGROUP / 32 * 16 + thread % 32 / 4;
}

DEVICE int column_of_thread(int thread) {
    (void)thread;
    return 0;
}

DEVICE int column_of_quad(int thread, int i) {
    return thread % 4 * 2 + thread / WARPGROUP * 32 + i / 4 * 64 + i % 4 * 8;
}

#endif
