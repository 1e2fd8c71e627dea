/* fwd_block_rows.cuh: the rows of a block, held by its warps as mma results: the block's work,
 * the masks, and the stores.
 *
 * A warp owns TILE_M / WARPS rows. Of each 16 x 8 result, lane l holds columns 2 (l % 4) and
 * the next, of row l / 4 (half 0) and of row l / 4 + 8 (half 1). */
#ifndef ATT_FWD_BLOCK_ROWS_CUH
#define ATT_FWD_BLOCK_ROWS_CUH

#include "kernels/fwd_scores.cuh"
#include "kernels/reduce.cuh"
#include "kernels/second_look.cuh"

#define IS_PLAIN  (ROLE == PLAIN || ROLE == SMALL) /* no score modification, aligned rows */
#define THREADS   (32 * WARPS)
#define WARP_ROWS (TILE_M / WARPS)
#define M_TILES   (WARP_ROWS / 16)
#define N_TILES   (TILE_N / 8)
#define K_STEPS   ((D_QK + 15) / 16)
#define O_TILES   ((D_V + 15) / 16 * 2)

/* The work of a block. */
typedef struct block_work {
    sequence s;
    int head;
    int row0;        /* first query position of the tile */
    int first, last; /* tiles of keys */
} block_work;

DEVICE block_work work_of(const att_fwd_params *p) {
    block_work w;
    const unsigned pair = divide(blockIdx.x, &p->by_row_blocks);
    /* With a causal mask, later rows see more keys. The longest blocks go first, so that no
     * long block runs alone at the end. */
    const int in_turn = (int)(blockIdx.x - pair * p->row_blocks);
    const int row_block = USE_LONGEST_FIRST ? p->row_blocks - 1 - in_turn : in_turn;
    const int batch = divide(pair, &p->by_heads_q);
    w.head = (int)pair - batch * p->heads_q;
    w.s = sequence_of(p, batch);
    w.row0 = row_block * TILE_M;
    const int row_last = min(w.row0 + TILE_M, w.s.len_q) - 1;
    const int lo = USE_TILE_SKIP ? visible_lo(p, &w.s, w.row0) / TILE_N : 0;
    const int hi = ((USE_TILE_SKIP ? max(visible_hi(p, &w.s, row_last), 0) : w.s.len_k) + TILE_N - 1) / TILE_N;
    const int each = p->splits == 1 ? max(hi - lo, 0) : (max(hi - lo, 0) + p->splits - 1) / p->splits;
    w.first = min(lo + (int)blockIdx.y * each, hi);
    w.last = min(w.first + each, hi);
    return w;
}

/* The query position of half `half` of row tile m, in this lane. */
DEVICE int row_of(const block_work *w, int m, int half) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return w->row0 + warp * WARP_ROWS + m * 16 + half * 8 + lane / 4;
}

/* Turn products into scores in units of log2 (ROLE GENERAL). */
DEVICE void adjust(const att_fwd_params *p, const block_work *w, float s[M_TILES][N_TILES][4], int j) {
    const float slope = slope_of(p, w->s.batch, w->head);
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = row_of(w, m, e / 2);
                const int key = j * TILE_N + n * 8 + threadIdx.x % 4 * 2 + e % 2;
                if (i < w->s.len_q && key < w->s.len_k)
                    s[m][n][e] = score_of(p, &w->s, w->head, i, key, slope, s[m][n][e]);
            }
}

DEVICE void hide(const att_fwd_params *p, const block_work *w, float s[M_TILES][N_TILES][4], int j) {
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row_of(w, m, half), key0 = j * TILE_N + threadIdx.x % 4 * 2;
            const int lo = visible_lo(p, &w->s, i) - key0, hi = visible_hi(p, &w->s, i) - key0;
#pragma unroll
            for (int n = 0; n < N_TILES; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (8 * n + e < lo || 8 * n + e >= hi)
                        s[m][n][2 * half + e] = -INFINITE;
        }
}

/* The index of row i of this split among the partial results. */
DEVICE long long partial_row(const att_fwd_params *p, const block_work *w, int i) {
    return (((long long)blockIdx.y * p->batch + w->s.batch) * p->heads_q + w->head) * p->seq_q + i;
}

/* Store one row half of a lane, of O or of a partial O, directly from registers. */
DEVICE void store_pairs(const att_fwd_params *p, const block_work *w, float o[O_TILES][4], int half, int i) {
    const bool partial = p->splits > 1;
    const long long at = partial ? partial_row(p, w, i) * p->d_v
                                 : query_offset(p, &w->s, &p->o_stride, w->head, i);
#pragma unroll
    for (int n = 0; n < O_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int column = n * 8 + threadIdx.x % 4 * 2 + e;
            if (column >= p->d_v)
                continue;
            if (partial)
                p->partial_o[at + column] = o[n][2 * half + e];
            else
                store_from_float(p->o, at + column, p->dtype_o, o[n][2 * half + e]);
        }
}

/* Store O of the warp's rows if they are aligned (IS_PLAIN); defined by each kernel. `shared`
 * is all of the block's shared memory, which is no longer in use. */
DEVICE void store_rows(const att_fwd_params *p, const block_work *w, float o[M_TILES][O_TILES][4], char *shared);

/* Divide by the sums and write O and LSE, or write the part as it is; values of it that are not
 * finite show up in the combined row. Returns the set of this lane's rows (bit 2 * m + half) that
 * must be recomputed. */
DEVICE unsigned finish(const att_fwd_params *p, const block_work *w, float o[M_TILES][O_TILES][4],
                       float top[M_TILES][2], float sum[M_TILES][2], char *shared) {
    const bool partial = p->splits > 1, first_lane = threadIdx.x % 4 == 0;
    unsigned redo = 0;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row_of(w, m, half);
            const float total = quad_sum(sum[m][half]);
            /* Two lanes of a row: both values in one would take a pair of registers. */
            if (partial && threadIdx.x % 4 < 2 && i < w->s.len_q)
                p->partial_sums[2 * partial_row(p, w, i) + threadIdx.x % 4] = first_lane ? top[m][half] : total;
            float lse = total > 0.0f ? top[m][half] + log2_fast(total) : total == 0.0f ? -INFINITE : total;
            float scale = partial ? 1.0f : total > 0.0f ? 1.0f / total : total;
            if (!IS_PLAIN && !partial)
                scale *= add_sink(p, w->head, &lse);
            float check = 0.0f;
#pragma unroll
            for (int n = 0; n < O_TILES; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    o[m][n][2 * half + e] *= scale;
                    check += o[m][n][2 * half + e] * 0.0f;
                }
            /* The sum is not 0 if the row has a NaN or an infinity anywhere. */
            const bool finite = quad_sum(check) == 0.0f && lse == lse;
            const bool lost = total == 0.0f && visible_hi(p, &w->s, i) > visible_lo(p, &w->s, i);
            if (i < w->s.len_q && !partial && (!finite || lost))
                redo |= 1u << (2 * m + half);
            if (i >= w->s.len_q)
                continue;
            if (!partial && p->lse && first_lane)
                p->lse[query_offset(p, &w->s, &p->lse_stride, w->head, i)] = lse * LN_2;
            if (partial || !IS_PLAIN || !USE_VECTOR_STORE)
                store_pairs(p, w, o[m], half, i);
        }
    if (!partial && IS_PLAIN && USE_VECTOR_STORE)
        store_rows(p, w, o, shared);
    return redo;
}

DEVICE void redo_rows(const att_fwd_params *p, const block_work *w, unsigned redo) {
    for (int bit = 0; bit < 2 * M_TILES; bit++) {
        /* One vote per quad of lanes, which share a row. */
        unsigned votes = __ballot_sync(0xffffffffu, redo >> bit & 1) & 0x11111111u;
        for (; votes; votes &= votes - 1) {
            const int quad = (__ffs(votes) - 1) / 4;
            second_look(p, w->s.batch, w->head,
                     w->row0 + threadIdx.x / 32 * WARP_ROWS + bit / 2 * 16 + bit % 2 * 8 + quad);
        }
    }
}

#endif
