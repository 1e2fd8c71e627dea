/* bwd_sm90_rows.cuh: turns the sums of dQ of a tile of rows into d_q, with the 256 threads of
 * two consumer warpgroups. In bwd_sm90 this is done by blocks that have run out of items;
 * bwd_sm90_finish does the tiles that are left.
 *
 * Tiles are counted over (batch entry, query head) pairs, the last rows of a pair first:
 * roughly the order in which their sums become complete. */
#ifndef ATT_BWD_SM90_ROWS_CUH
#define ATT_BWD_SM90_ROWS_CUH

#include "kernels/bwd_sm90_work.cuh"
#include "kernels/convert.cuh"
#include "kernels/semaphore.cuh"
#include "kernels/vector.cuh"
#include "kernels/warpgroup.cuh"

#define ROWS_THREADS   (2 * WARPGROUP)
#define ROWS_COLUMNS   64                 /* per warpgroup */
#define ROWS_QUADS     (ROWS_COLUMNS / 8) /* groups of four registers per thread */
#define ROWS_SUM_COUNT (ROWS_THREADS * ROWS_COLUMNS / 2)
/* Elements per row in shared memory: padded so that rows written together fall into different
 * banks. */
#define ROWS_PITCH ((D_QK + 63) / 64 * 64 + 8)

enum { NAMED_TILE = 6 }; /* the named barrier of these threads */

/* A flag in att_bwd_params.turns, in the counter of set 0: the tile's d_q is not finite. */
#define TURNS_LOST 0x80000000u

typedef struct row_tile {
    sequence s;
    int head, tile, rows; /* rows <= 0: there are none */
} row_tile;

DEVICE int row_tile_count(const att_bwd_params *p) {
    return p->fwd.batch * p->fwd.heads_q * p->row_tiles;
}

DEVICE row_tile row_tile_of(const att_bwd_params *p, int number) {
    row_tile t;
    const int pair = number / p->row_tiles, batch = (int)divide(pair, &p->fwd.by_heads_q);
    t.s = sequence_of(&p->fwd, batch);
    t.head = pair - batch * p->fwd.heads_q;
    t.tile = p->row_tiles - 1 - (number - pair * p->row_tiles);
    t.rows = min(TILE_M, t.s.len_q - t.tile * TILE_M);
    return t;
}

/* The number of key tiles in [first, end) that belong to a set. */
DEVICE int tiles_in_set(int set, int sets, int first, int end) {
    const int ahead = set - first % sets, begin = first + (ahead < 0 ? ahead + sets : ahead);
    return begin < end ? (end - begin + sets - 1) / sets : 0;
}

/* The index of the counter and the sum of set 0; those of the other sets follow. */
DEVICE long long first_sum(const att_bwd_params *p, const row_tile *t) {
    return tile_number(p, &t->s, t->head, t->tile) * p->turn_count;
}

/* Wait until all key tiles have been added. Called by one thread. */
DEVICE void wait_for_sums(const att_bwd_params *p, const row_tile *t) {
    const int first = first_tile_of(&p->fwd, &t->s, t->tile),
              end = end_tile_of(&p->fwd, &t->s, t->tile);
    const unsigned *counters = p->turns + first_sum(p, t);
    const int sets = p->turn_count, begun = first % sets;
#pragma unroll 1
    for (int n = 0; n < min(sets, end - first); n++) { /* the set that has key tile first + n */
        const int set = begun + n < sets ? begun + n : begun + n - sets;
        semaphore_wait(counters + set, (unsigned)(end - first - n + sets - 1) / (unsigned)sets);
    }
}

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

/* A thread's first row and column of the tile. */
DEVICE int row_of_thread(int thread) {
    return thread % WARPGROUP / 32 * 16 + thread % 32 / 4 +
           (TILE_M == 64 ? 0 : 64 * (thread / WARPGROUP));
}

DEVICE int column_of_thread(int thread) {
    return thread % 4 * 2 + (TILE_M == 64 ? ROWS_COLUMNS * (thread / WARPGROUP) : 0);
}

DEVICE void store_tile_floats(const att_bwd_params *p, const row_tile *t,
                              const float4 sum[ROWS_QUADS], long long to, int thread) {
    const int row = row_of_thread(thread), column = column_of_thread(thread);
    float *out = (float *)p->d_q + to + column;
    const float scale = p->fwd.scale;
#pragma unroll
    for (int i = 0; i < ROWS_QUADS; i++)
        if (column + 8 * i < p->fwd.d_qk) {
            if (row < t->rows)
                *(float2 *)(out + row * p->d_q_stride.row + 8 * i) =
                    make_float2(sum[i].x * scale, sum[i].y * scale);
            if (row + 8 < t->rows)
                *(float2 *)(out + (row + 8) * p->d_q_stride.row + 8 * i) =
                    make_float2(sum[i].z * scale, sum[i].w * scale);
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
        *(unsigned *)(rounded + row * ROWS_PITCH + column + 8 * i) =
            pack_16(p->dtype_grad, sum[i].x * scale, sum[i].y * scale);
        *(unsigned *)(rounded + (row + 8) * ROWS_PITCH + column + 8 * i) =
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
