/* bwd_sm90_shared.cuh: the layout of a block's shared memory, and the barriers that guard it.
 *
 * Tiles are stored as panels of 64 columns, [panel][row][64]: K and V of a key tile, a ring of
 * Q and one of dO, two buffers for dS, whose columns are keys, and two for dQ in float32, in
 * the layout of the warpgroups' registers. dK and dV are stored through the buffers of K and
 * V. */
#ifndef ATT_BWD_SM90_SHARED_CUH
#define ATT_BWD_SM90_SHARED_CUH

#include "kernels/bwd_params.h"
#include "kernels/config.cuh"
#include "kernels/mbarrier.cuh"
#include "kernels/switches_bwd.cuh"
#include "kernels/switches_sm90.cuh"
#include "kernels/warpgroup.cuh"

#define GROUPS     2  /* consumer warpgroups */
#define GROUP_KEYS 64 /* per consumer warpgroup */
#define QK_PANELS  ((D_QK + 63) / 64)
#define V_PANELS   ((D_V + 63) / 64)
#define ROW_BYTES  128                        /* of a panel */
#define STORERS    (USE_MORE_STORERS ? 3 : 1) /* warps that store dQ, in turn */
#define DQ_PLACES  2                          /* buffers that consumers fill in turn */

/* With 64 rows per row block, the warpgroups split the columns of dQ, one panel each; with 128,
 * they split its rows. */
#define SHARES_COLUMNS (TILE_M == 64)
#define DQ_COLUMNS     64

#define K_BYTES    (TILE_N * ROW_BYTES * QK_PANELS)
#define V_BYTES    (TILE_N * ROW_BYTES * V_PANELS)
#define Q_BYTES    (TILE_M * ROW_BYTES * QK_PANELS)
#define DO_BYTES   (TILE_M * ROW_BYTES * V_PANELS)
#define DS_BYTES   (TILE_M * ROW_BYTES * (TILE_N / 64))
#define DQ_BYTES   (GROUPS * WARPGROUP * DQ_COLUMNS / 2 * 4)
#define ROWS_BYTES (TILE_M * ATT_BWD_TERMS * 4) /* log-sum and delta of each row */

#define K_AT       0
#define V_AT       (K_AT + K_BYTES)
#define Q_AT       (V_AT + V_BYTES)
#define DO_AT      (Q_AT + STAGES * Q_BYTES)
#define DS_AT      (DO_AT + STAGES * DO_BYTES)
#define DQ_AT      (DS_AT + 2 * DS_BYTES)
#define ROWS_AT    (DQ_AT + DQ_PLACES * DQ_BYTES)
#define BARRIER_AT (ROWS_AT + STAGES * ROWS_BYTES)

#define SHARED_SLACK 512 /* barriers and records */
CHECK_SHARED(BARRIER_AT + SHARED_SLACK);
static_assert(BARRIER_AT + SHARED_SLACK <= 227 * 1024, "a block fits");
static_assert(TILE_N == GROUPS * GROUP_KEYS, "a product of 64 keys for each warpgroup");
static_assert(TILE_M == 128 ? QK_PANELS == 1 : TILE_M == 64 && QK_PANELS == 2,
              "the warpgroups share dQ");
static_assert(STAGES * Q_BYTES >= TILE_M * (QK_PANELS * 64 + 8) * 2,
              "a rounded tile of dQ fits where Q was");
static_assert(WARPS == 4 * (GROUPS + 1),
              "a warpgroup that loads and stores, and the consumers");

/* The description of an item, for all warps that work on it. Records form a ring: the n-th
 * record used describes the n-th item that the block takes. */
enum {
    REC_ITEM, /* its number, or NO_ITEM */
    REC_BATCH,
    REC_KV_HEAD,
    REC_TILE,
    REC_LEN_Q,
    REC_LEN_K,
    REC_SHIFT,       /* of the diagonal */
    REC_FIRST_BLOCK, /* row blocks, for each query head of the group */
    REC_END_BLOCK,
    REC_ROW_Q, /* first row of the sequence in packed Q */
    REC_ROW_K, /* row of its key 0 */
    REC_BLOCK, /* first row block of the sequence among those of a head */
    REC_HELD,  /* keys in memory from key 0 on */
    REC_FIRST_K,
    REC_CLEAR_FIRST, /* row blocks in which every row sees every key of the tile */
    REC_CLEAR_END,
    REC_WORDS = 16
};
enum { RECORDS = 2, NO_ITEM = -1 };

/* Barriers in shared memory. Readers wait for `full`, writers wait for `empty`. */
enum {
    BAR_KEYS_FULL = 0,
    BAR_KEYS_EMPTY,
    BAR_Q_FULL,
    BAR_Q_EMPTY = BAR_Q_FULL + STAGES,
    BAR_DO_FULL = BAR_Q_EMPTY + STAGES,
    BAR_DO_EMPTY = BAR_DO_FULL + STAGES,
    BAR_DQ_FULL =
        BAR_DO_EMPTY + STAGES, /* one per storer and warpgroup: turns do not alias */
    BAR_DQ_EMPTY = BAR_DQ_FULL + STORERS * GROUPS, /* one per buffer and warpgroup */
    BAR_ITEM_FULL = BAR_DQ_EMPTY + DQ_PLACES * GROUPS,
    BAR_ITEM_EMPTY = BAR_ITEM_FULL + RECORDS,
    BAR_ROWS_FULL = BAR_ITEM_EMPTY + RECORDS, /* the number of a tile of rows to finish */
    BAR_ROWS_EMPTY,
    BAR_COUNT,
    RECORDS_AT = (BAR_COUNT + 1) / 2 * 2 /* in units of barriers */
};
#define ROWS_NUMBER_AT (BARRIER_AT + RECORDS_AT * MBARRIER_BYTES + RECORDS * REC_WORDS * 4)
static_assert(ROWS_NUMBER_AT + 4 - BARRIER_AT <= SHARED_SLACK, "they have their place");

/* Named barriers, each shared by both consumer warpgroups. */
enum { NAMED_DS = 1, NAMED_KEYS };

/* True in the one lane of a warp that does what must be done once. */
DEVICE bool does_speak(void) {
    return USE_ELECTED_LANE ? elect_lane() : threadIdx.x % 32 == 0;
}

/* A slot of a ring, and the parity that readers wait for there. */
typedef struct ring {
    int place, parity;
} ring;

DEVICE ring ring_next(ring r, int places) {
    const bool wraps = r.place == places - 1;
    return {wraps ? 0 : r.place + 1, r.parity ^ wraps};
}

DEVICE unsigned barrier_of(unsigned shared, int which) {
    return shared + BARRIER_AT + MBARRIER_BYTES * which;
}

DEVICE unsigned record_place(unsigned shared, int place, int what) {
    return barrier_of(shared, RECORDS_AT) + 4 * (REC_WORDS * place + what);
}

/* Word `what` of the record at `place`. */
DEVICE int record_word(unsigned shared, int place, int what) {
    int value;
    asm volatile("ld.shared.b32 %0, [%1];"
                 : "=r"(value)
                 : "r"(record_place(shared, place, what))
                 : "memory");
    return value;
}

/* Readers wait until the slot is full, writers until it is empty. */
DEVICE void wait_full(unsigned shared, int full, ring at) {
    mbarrier_wait(barrier_of(shared, full + at.place), at.parity);
}

DEVICE void wait_empty(unsigned shared, int empty, ring at) {
    mbarrier_wait_long(barrier_of(shared, empty + at.place), at.parity ^ 1);
}

#endif
