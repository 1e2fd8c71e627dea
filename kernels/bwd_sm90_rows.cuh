/* bwd_sm90_rows.cuh: turns the sums of dQ of a tile of rows into d_q, with the 256 threads of
 * two consumer warpgroups. This is done by blocks of bwd_sm90 and bwd_sm90_wide that have run
 * out of items; bwd_sm90_finish and bwd_sm90_wide_finish do the tiles that are left. */
#ifndef ATT_BWD_SM90_ROWS_CUH
#define ATT_BWD_SM90_ROWS_CUH

#include "kernels/bwd_sm90_row_tiles.cuh"
#include "kernels/convert.cuh"
#include "kernels/panels.cuh"
#include "kernels/vector.cuh"
#include "kernels/warpgroup.cuh"
#if IS_WIDE
#include "kernels/bwd_sm90_wide_sums.cuh"
#else
#include "kernels/bwd_sm90_sums.cuh"
#endif

#define ROWS_THREADS (2 * WARPGROUP)
/* Elements per row in shared memory: padded so that rows written together fall into different
 * banks. */
#define ROWS_PITCH (QK_PANELS * 64 + 8)

enum { NAMED_TILE = 6 }; /* the named barrier of these threads */

/* A flag in att_bwd_params.turns, in the counter of set 0: the tile's d_q is not finite. */
#define TURNS_LOST 0x80000000u

DEVICE void store_tile_floats(const att_bwd_params *p, const row_tile *t,
                              const float4 sum[ROWS_QUADS], long long to, int thread) {
    const int row = row_of_thread(thread), column = column_of_thread(thread);
    float *out = (float *)p->d_q + to + column;
    const float scale = p->fwd.scale;
#pragma unroll
    for (int i = 0; i < ROWS_QUADS; i++) {
        const int quad = column_of_quad(thread, i);
        if (column + quad < p->fwd.d_qk) {
            if (row < t->rows)
                *(float2 *)(out + row * p->d_q_stride.row + quad) =
                    make_float2(sum[i].x * scale, sum[i].y * scale);
            if (row + 8 < t->rows)
                *(float2 *)(out + (row + 8) * p->d_q_stride.row + quad) =
                    make_float2(sum[i].z * scale, sum[i].w * scale);
        }
    }
}

/* Through shared memory, from which rows are stored 16 bytes at a time. */
DEVICE void store_tile_rounded(const att_bwd_params *p, const row_tile *t,
                               const float4 sum[ROWS_QUADS], long long to, half_bits *rounded,
                               int thread) {
    const int row = row_of_thread(thread), column = column_of_thread(thread);
    const float scale = p->fwd.scale;
#pragma unroll
    for (int i = 0; i < ROWS_QUADS; i++) {
        const int quad = column_of_quad(thread, i);
        *(unsigned *)(rounded + row * ROWS_PITCH + column + quad) =
            pack_16(p->dtype_grad, sum[i].x * scale, sum[i].y * scale);
        *(unsigned *)(rounded + (row + 8) * ROWS_PITCH + column + quad) =
            pack_16(p->dtype_grad, sum[i].z * scale, sum[i].w * scale);
    }
    named_barrier_wait(NAMED_TILE, ROWS_THREADS);
    const int chunks = p->fwd.d_qk / 8;
    for (int at = thread; at < t->rows * chunks; at += ROWS_THREADS) {
        const int r = at / chunks, chunk = at - r * chunks;
        store_16((half_bits *)p->d_q + to + r * p->d_q_stride.row + 8 * chunk,
                 *(const uint4 *)(rounded + r * ROWS_PITCH + 8 * chunk));
    }
}

/* Finish a tile whose sums are complete. `rounded` has TILE_M * ROWS_PITCH elements that nobody
 * else uses. A tile that is not finite is marked. */
DEVICE void finish_tile(const att_bwd_params *p, const row_tile *t, half_bits *rounded,
                        int thread) {
    const long long to =
        query_offset(&p->fwd, &t->s, &p->d_q_stride, t->head, t->tile * TILE_M);
    float4 sum[ROWS_QUADS];
    load_sums(sum, p, t, thread);
    float zero = 0.0f;
#pragma unroll
    for (int i = 0; i < ROWS_QUADS; i++)
        zero += fmaf(sum[i].x, 0.0f, sum[i].y * 0.0f) + fmaf(sum[i].z, 0.0f, sum[i].w * 0.0f);
    if (zero != 0.0f)
        atomicOr(p->turns + first_sum(p, t), TURNS_LOST);
    if (p->dtype_grad == F32)
        store_tile_floats(p, t, sum, to, thread);
    else
        store_tile_rounded(p, t, sum, to, rounded, thread);
}

#endif
