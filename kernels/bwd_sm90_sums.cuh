/* bwd_sm90_sums.cuh: the sums of dQ of a tile of rows as bwd_sm90 leaves them: in the layout of
 * the registers of its two consumer warpgroups, which have different columns or different
 * rows. */
#ifndef ATT_BWD_SM90_SUMS_CUH
#define ATT_BWD_SM90_SUMS_CUH

#include "kernels/bwd_sm90_row_tiles.cuh"
#include "kernels/warpgroup.cuh"

#define ROWS_COLUMNS   64                 /* per warpgroup */
#define ROWS_QUADS     (ROWS_COLUMNS / 8) /* groups of four registers per thread */
#define ROWS_SUM_COUNT (2 * WARPGROUP * ROWS_COLUMNS / 2)

/* Add up the sums of the sets, in order. Other SMs may just have written them, so the loads
 * bypass L1. */
DEVICE void load_sums(float4 sum[ROWS_QUADS], const att_bwd_params *p, const row_tile *t,
                      int thread) {
    const int first = first_tile_of(&p->fwd, &t->s, t->tile),
              end = end_tile_of(&p->fwd, &t->s, t->tile);
    const float4 *from = (const float4 *)(p->d_q_sums + first_sum(p, t) * ROWS_SUM_COUNT +
                                          thread / WARPGROUP * (ROWS_SUM_COUNT / 2)) +
                         thread % WARPGROUP;
#pragma unroll
    for (int i = 0; i < ROWS_QUADS; i++)
        sum[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int set = 0; set < p->turn_count; set++)
        if (tiles_in_set(set, p->turn_count, first, end) > 0)
#pragma unroll
            for (int i = 0; i < ROWS_QUADS; i++) {
                const float4 x = __ldcg(from + set * (ROWS_SUM_COUNT / 4) + i * WARPGROUP);
                sum[i] =
                    make_float4(sum[i].x + x.x, sum[i].y + x.y, sum[i].z + x.z, sum[i].w + x.w);
            }
}

/* A thread's first row and column of the tile; the column of its quad i from there on. */
DEVICE int row_of_thread(int thread) {
    return thread % WARPGROUP / 32 * 16 + thread % 32 / 4 +
           (TILE_M == 64 ? 0 : 64 * (thread / WARPGROUP));
}

DEVICE int column_of_thread(int thread) {
    return thread % 4 * 2 + (TILE_M == 64 ? ROWS_COLUMNS * (thread / WARPGROUP) : 0);
}

DEVICE int column_of_quad(int thread, int i) {
    (void)thread;
    return 8 * i;
}

#endif
