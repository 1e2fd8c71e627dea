/* bwd_sm90_shared.cuh: the layout of a block's shared memory, and the barriers that guard it.
 *
 * Tiles are stored as panels of 64 columns, [panel][row][64]: K and V of a key tile, a ring of
 * Q and one of dO, two buffers for dS, whose columns are keys, and two for dQ in float32, in
 * the layout of the warpgroups' registers. dK and dV are stored through the buffers of K and
 * V. */
#ifndef ATT_BWD_SM90_SHARED_CUH
#define ATT_BWD_SM90_SHARED_CUH

#include "kernels/bwd_sm90_record.cuh"
#include "kernels/bwd_sm90_tiles.cuh"
#include "kernels/mbarrier.cuh"
#include "kernels/ring.cuh"

#define GROUP_KEYS 64 /* per consumer warpgroup */
#define DQ_PLACES  2  /* buffers that consumers fill in turn */

/* With 64 rows per row block, the warpgroups split the columns of dQ, one panel each; with 128,
 * they split its rows. */
#define SHARES_COLUMNS (TILE_M == 64)
#define DQ_COLUMNS     64

#define DS_BYTES (PANEL_BYTES * (TILE_N / 64))
#define DQ_BYTES (GROUPS * WARPGROUP * DQ_COLUMNS / 2 * 4)

#define DS_AT      (DO_AT + STAGES * DO_BYTES)
#define DQ_AT      (DS_AT + 2 * DS_BYTES)
#define ROWS_AT    (DQ_AT + DQ_PLACES * DQ_BYTES)
#define BARRIER_AT (ROWS_AT + STAGES * ROWS_BYTES)

CHECK_SHARED(BARRIER_AT + SHARED_SLACK);
static_assert(BARRIER_AT + SHARED_SLACK <= 227 * 1024, "a block fits");
static_assert(TILE_N == GROUPS * GROUP_KEYS, "a product of 64 keys for each warpgroup");
static_assert(TILE_M == 128 ? QK_PANELS == 1 : TILE_M == 64 && QK_PANELS == 2,
              "the warpgroups share dQ");

/* Barriers in shared memory. Readers wait for `full`, writers wait for `empty`. */
enum {
    BAR_KEYS_FULL = 0,
    BAR_KEYS_EMPTY,
    BAR_Q_FULL,
    BAR_Q_EMPTY = BAR_Q_FULL + STAGES,
    BAR_DO_FULL = BAR_Q_EMPTY + STAGES,
    BAR_DO_EMPTY = BAR_DO_FULL + STAGES,
    BAR_DQ_FULL = BAR_DO_EMPTY + STAGES, /* one per storer and warpgroup: turns do not alias */
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

/* The panels that the producer loads per round of a loop: all of them. */
enum { PANELS_AT_ONCE = 2 };

/* The slots of Q and dO to fill next: a row block uses the same one of both rings. */
typedef struct row_slots {
    ring both;
} row_slots;

#endif
