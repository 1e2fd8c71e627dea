/* fwd_decode_tile.cuh: a few query rows against many keys: the tile of a block, and the merge
 * of its warps' results.
 *
 * The rows are TILE_M of all positions of the query heads of a group. Every warp walks its own
 * keys, TILE_N per step, with its own ring of RING_BYTES in shared memory, which the including
 * file defines. The merge reuses the rings. */
#ifndef ATT_FWD_DECODE_TILE_CUH
#define ATT_FWD_DECODE_TILE_CUH

#include "kernels/fwd_parts.cuh"
#include "kernels/fwd_tile_load.cuh"

#define QK_PITCH SWIZZLE_PITCH(D_QK)
#define V_PITCH  SWIZZLE_PITCH(D_V)

/* A warp's result in shared memory, in place of its ring: rows of O, each followed by its top
 * and its sum, padded to 16 bytes. */
#define RESULT_COLS  ((D_V + 15) / 16 * 16)
#define RESULT_PITCH (RESULT_COLS + 4)
#define RESULT_STEP  (RING_BYTES / 4) /* floats from a warp's result to the next one's */

static_assert(TILE_N % 16 == 0, "keys come in steps of an mma");
static_assert(TILE_M * RESULT_PITCH * 4 <= RING_BYTES, "the merge fits where the rings were");

typedef struct block_work {
    sequence s;
    int head_kv;
    int row0, rows;           /* first of the len_q * group rows, and rows in the tile */
    int first, last;          /* steps of TILE_N keys */
    int clear_from, clear_to; /* keys that every row sees */
} block_work;

/* The tile that begins with row `row0`, against all keys that its rows see. */
DEVICE block_work work_on_tile(const att_fwd_params *p, const sequence *s, int head_kv, int row0) {
    block_work w;
    w.s = *s;
    w.head_kv = head_kv;
    w.row0 = row0;
    w.rows = min(w.s.len_q * p->group - w.row0, TILE_M);
    const int position0 = divide(w.row0, &p->by_group);
    const int position1 = divide(w.row0 + max(w.rows, 1) - 1, &p->by_group);
    w.clear_from = visible_lo(p, &w.s, position1);
    w.clear_to = visible_hi(p, &w.s, position0);
    w.first = visible_lo(p, &w.s, position0) / TILE_N;
    w.last = (max(visible_hi(p, &w.s, position1), 0) + TILE_N - 1) / TILE_N;
    return w;
}

/* The tile and the part of its keys that this block works on. */
DEVICE block_work work_of(const att_fwd_params *p) {
    const unsigned pair = divide(blockIdx.x, &p->by_row_blocks);
    const int batch = divide(pair, &p->by_heads_kv);
    const sequence s = sequence_of(p, batch);
    block_work w = work_on_tile(p, &s, pair - batch * p->heads_kv, (blockIdx.x - pair * p->row_blocks) * TILE_M);
    const int each = divide(max(w.last - w.first, 0) + p->splits - 1, &p->by_splits);
    w.first = min(w.first + (int)blockIdx.y * each, w.last);
    w.last = min(w.first + each, w.last);
    return w;
}

/* May products become weights in one fused operation, scaled and relative to the top? Not if a
 * feature changes the scores. Nor if O is written in float32: the heaviest key of a row must then
 * weigh exactly 1, since its weight is rounded for the product with V but not in the sum. A score
 * that is rounded before it is compared differs from its own top by 0. */
DEVICE bool weighs_at_once(const att_fwd_params *p) {
    return p->softcap == 0.0f && !p->alibi && !p->bias && p->scale > 0.0f && p->dtype_o != F32;
}

/* Row r of the tile: a query head and a position. */
typedef struct tile_row {
    int head, position;
} tile_row;

DEVICE tile_row row_of(const att_fwd_params *p, const block_work *w, int r) {
    const int position = divide(w->row0 + r, &p->by_group);
    const tile_row row = {w->head_kv * p->group + w->row0 + r - position * p->group, position};
    return row;
}

/* Load the tile's query rows into shared memory. The other rows are undefined; their results
 * are not stored. */
DEVICE void copy_q(const att_fwd_params *p, const block_work *w, unsigned tile) {
    const int lane = threadIdx.x % 32;
    for (int r = lane / 8; r < w->rows; r += 4) {
        const tile_row row = row_of(p, w, r);
        load_row(tile, D_QK, r, (const half_bits *)p->q,
                 query_offset(p, &w->s, &p->q_stride, row.head, row.position), p->d_qk,
                 p->flags & ATT_FWD_VECTOR, lane % 8, 8);
    }
}

/* Merge row r from the results of this block's warps. */
DEVICE merged_row merge_warps(const float *results, int r) {
    const int lane = threadIdx.x % 32;
    const float *row = results + r * RESULT_PITCH;
    merged_row m = {-INFINITE, 0.0f, {}};
    float weight[WARPS];
#pragma unroll
    for (int n = 0; n < WARPS; n++)
        m.top = fmaxf(m.top, row[n * RESULT_STEP + RESULT_COLS]);
#pragma unroll
    for (int n = 0; n < WARPS; n++) {
        const float *tail = row + n * RESULT_STEP + RESULT_COLS;
        weight[n] = m.top == -INFINITE ? 0.0f : exp2_fast(tail[0] - m.top);
        m.sum += weight[n] * tail[1];
    }
#pragma unroll
    for (int g = 0; g < QUADS; g++) {
        const int column = 4 * lane + 128 * g;
#pragma unroll
        for (int n = 0; n < WARPS && column < RESULT_COLS; n++)
            add_weighed(&m.o[g], weight[n], *(const float4 *)(row + n * RESULT_STEP + column));
    }
    return m;
}

#endif
