/* bwd_sm80_work.cuh: the layout of a block of bwd_sm80, and the work it is given. */
#ifndef ATT_BWD_SM80_WORK_CUH
#define ATT_BWD_SM80_WORK_CUH

#include "kernels/bwd_rows.cuh"
#include "kernels/swizzle.cuh"

#define IS_PLAIN (ROLE == PLAIN)
#define THREADS  (32 * WARPS)

/* How warps divide a tile. Two warps share keys if the sums of one would not fit in its
 * registers, or if there are more warps than groups of 16 keys. Each then has the scores of
 * half of the rows, and dK and dV of half of the columns. */
#define IS_SHARED  (D_QK + D_V > 128 || TILE_N / 16 < WARPS)
#define HALVES     (IS_SHARED ? 2 : 1)
#define KEY_GROUPS (WARPS / HALVES)
#define WARP_KEYS  (TILE_N / KEY_GROUPS)
#define K_TILES    (WARP_KEYS / 16)
#define WARP_ROWS  (TILE_M / HALVES)

#define QK_STEPS ((D_QK + 15) / 16)
#define V_STEPS  ((D_V + 15) / 16)
#define QK_TILES (2 * QK_STEPS / HALVES) /* of a warp's own columns */
#define V_TILES  (2 * V_STEPS / HALVES)

/* dV, then dK. */
#define SUM_TILES (V_TILES + QK_TILES)

/* Rows whose scores a warp holds in registers at the same time. */
#ifndef ROWS_AT_ONCE
#define ROWS_AT_ONCE 32
#endif
#define CHUNK   (WARP_ROWS < ROWS_AT_ONCE ? WARP_ROWS : ROWS_AT_ONCE)
#define C_TILES (CHUNK / 8)

/* Pieces of dQ, one per warp: 32 rows if the columns of a piece are then a multiple of 16,
 * otherwise 16 rows. */
#define DQ_M_TILES    (TILE_M >= 32 && QK_STEPS * (TILE_M / 32) % WARPS == 0 ? 2 : 1)
#define DQ_ROW_PIECES (TILE_M / (16 * DQ_M_TILES))
#define DQ_COLUMNS    (QK_STEPS * 16 * DQ_ROW_PIECES / WARPS)
#define DQ_PASSES     (DQ_M_TILES * DQ_COLUMNS > 96 ? 2 : 1)
#define DQ_TILES      (DQ_COLUMNS / DQ_PASSES / 8)

#define DS_STAGES  (STAGES == 1 ? 1 : 2)
#define QK_PITCH   SWIZZLE_PITCH(D_QK)
#define V_PITCH    SWIZZLE_PITCH(D_V)
#define K_BYTES    (TILE_N * QK_PITCH)
#define V_BYTES    (TILE_N * V_PITCH)
#define Q_BYTES    (TILE_M * QK_PITCH)
#define DO_BYTES   (TILE_M * V_PITCH)
#define DS_BYTES   (TILE_N * TILE_M * 2)
#define ROW_BYTES  (TILE_M * 8)
#define WORK_BYTES 64
#define STAGE_AT   (K_BYTES + V_BYTES)
#define DS_AT      (STAGE_AT + STAGES * (Q_BYTES + DO_BYTES))
#define P_AT       (DS_AT + DS_STAGES * DS_BYTES)
#define ROWS_AT    (P_AT + (IS_SHARED ? DS_BYTES : 0))
#define WORK_AT    (ROWS_AT + STAGES * ROW_BYTES)
#define SHARED_END (WORK_AT + WORK_BYTES)

#define NO_TURN 0xffffffffu /* no turn: not the index of any counter */

CHECK_SHARED(SHARED_END);
static_assert(TILE_M == 16 || TILE_M == 32 || TILE_M == 64, "dS has 2, 4 or 8 chunks of 16 bytes per key");
static_assert(TILE_N % (16 * KEY_GROUPS) == 0 && WARP_ROWS % 16 == 0 && WARP_ROWS % CHUNK == 0,
              "a warp computes whole tiles");
static_assert(!IS_SHARED || CHUNK == WARP_ROWS, "the other warp's weights are whole when they are read");
static_assert(QK_TILES % 2 == 0 && V_TILES % 2 == 0, "columns in steps of 16");
static_assert(STAGES == 1 || STAGES == 2, "tiles of Q and dO");
static_assert(WARPS % DQ_ROW_PIECES == 0 && DQ_COLUMNS % (16 * DQ_PASSES) == 0, "pieces of dQ are whole tiles");

/* The work of a block. */
typedef struct block_work {
    sequence s;
    int head_kv;
    int key_tile, key0;
    int first, last; /* tiles of rows that see a key of the tile */
} block_work;
static_assert(sizeof(block_work) <= WORK_BYTES, "a block's work in shared memory");

/* One step: a tile of rows of one head. */
typedef struct row_step {
    int head, tile;
} row_step;

/* Work is ordered by key tile, and for each key tile by the (batch, head) pairs of a section,
 * so that blocks that run at the same time seldom wait for each other. */
DEVICE block_work work_of(const att_bwd_params *p, int number) {
    const att_fwd_params *f = &p->fwd;
    const int pairs = f->batch * f->heads_kv, section = number / (p->section * p->key_tiles);
    const int in_section = min(p->section, pairs - section * p->section);
    const int rest = number - section * p->section * p->key_tiles;
    const int key_tile = rest / in_section, pair = section * p->section + rest - key_tile * in_section;
    block_work w;
    const int batch = divide(pair, &f->by_heads_kv);
    w.head_kv = pair - batch * f->heads_kv;
    w.s = sequence_of(f, batch);
    w.key_tile = key_tile;
    w.key0 = key_tile * TILE_N;
    w.first = w.last = 0;
    if (w.key0 < w.s.len_k) {
        const int rows_from = first_row_of_key(f, &w.s, w.key0);
        const int rows_to = last_row_of_key(f, &w.s, w.key0 + TILE_N - 1);
        if (rows_from < rows_to) {
            w.first = rows_from / TILE_M;
            w.last = (rows_to + TILE_M - 1) / TILE_M;
        }
    }
    return w;
}

/* Rows go from the last to the first, head after head. */
DEVICE row_step step_after(const block_work *w, row_step at) {
    at.tile--;
    if (at.tile < w->first) {
        at.tile = w->last - 1;
        at.head++;
    }
    return at;
}

#endif
