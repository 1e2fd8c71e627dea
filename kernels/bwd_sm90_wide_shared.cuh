/* bwd_sm90_wide_shared.cuh: the layout of a block's shared memory, the barriers that guard it,
 * and how the warpgroups divide the work.
 *
 * Tiles are stored as panels of 64 columns, [panel][row][64]: K and V of a key tile, rings of Q
 * and of dO, P and dS, whose columns are keys. Each warpgroup also has a ring of slots for dQ
 * in float32, half a panel each, in register layout. dK and dV are stored through the buffers
 * of K and V. */
#ifndef ATT_BWD_SM90_WIDE_SHARED_CUH
#define ATT_BWD_SM90_WIDE_SHARED_CUH

#include "kernels/bwd_sm90_record.cuh"
#include "kernels/bwd_sm90_tiles.cuh"
#include "kernels/mbarrier.cuh"
#include "kernels/ring.cuh"

/* With 128 keys per tile, each warpgroup has dK and dV of 64 of them. With 64, the two split
 * the columns, and the registers suffice for any number of columns. */
#define SHARES_KEYS (TILE_N == 128)
#define GROUP_KEYS  (TILE_N / GROUPS) /* the keys whose scores a warpgroup computes */

/* Slots per ring: as many as fit. */
#define IS_FULL   (SHARES_KEYS || QK_PANELS + V_PANELS > 6)
#define DO_STAGES (IS_FULL ? 1 : 2)
#define DQ_PLACES (IS_FULL ? 3 : 4) /* per warpgroup */

/* When the warpgroups split the columns: the panels of dV, dK and dQ of the first one. The
 * second one has the rest. If a tensor has an odd number of panels, the warpgroup that has more
 * of dK has less of dQ. */
#define DV_FIRST        ((V_PANELS + 1) / 2)
#define DK_FIRST        (V_PANELS % 2 ? QK_PANELS / 2 : (QK_PANELS + 1) / 2)
#define DQ_FIRST        (QK_PANELS - DK_FIRST)
#define DV_SHARE(group) ((group) == 0 ? DV_FIRST : V_PANELS - DV_FIRST)
#define DK_SHARE(group) ((group) == 0 ? DK_FIRST : QK_PANELS - DK_FIRST)
#define DQ_SHARE(group) ((group) == 0 ? DQ_FIRST : QK_PANELS - DQ_FIRST)

/* Halves of panels of dQ: all, those of one warpgroup, and the i-th of those. When an odd
 * number of panels is split evenly, the last half of each warpgroup is from the middle
 * panel. */
#define DQ_HALVES           (2 * QK_PANELS)
#define DQ_HALVES_OF(group) (SHARES_KEYS ? QK_PANELS : 2 * DQ_SHARE(group))
#define DQ_HALF(group, i)                                                                      \
    (!SHARES_KEYS ? 2 * DQ_FIRST * (group) + (i) : (i) == 2 ? 2 + (group) : 4 * (group) + (i))
#define DQ_HALVES_MOST 4

#define PAIR_BYTES (PANEL_BYTES * (TILE_N / 64)) /* P, or dS */
#define DQ_BYTES   (WARPGROUP * 16 * 4)          /* 16 registers per thread */

#define P_AT       (DO_AT + DO_STAGES * DO_BYTES)
#define DS_AT      (P_AT + PAIR_BYTES)
#define DQ_AT      (DS_AT + PAIR_BYTES)
#define ROWS_AT    (DQ_AT + GROUPS * DQ_PLACES * DQ_BYTES)
#define BARRIER_AT (ROWS_AT + STAGES * ROWS_BYTES)

CHECK_SHARED(BARRIER_AT + SHARED_SLACK);
static_assert(BARRIER_AT + SHARED_SLACK <= 227 * 1024, "a block fits");
static_assert(TILE_M == 64 && (TILE_N == 64 || TILE_N == 128), "panels of scores");
static_assert(QK_PANELS >= 3 && QK_PANELS <= 4 && V_PANELS >= 2 && V_PANELS <= 4,
              "a warpgroup has one or two panels of each gradient");
static_assert(!SHARES_KEYS || (QK_PANELS == 3 && V_PANELS == 2),
              "dK and dV of 64 keys fit the registers of a warpgroup");

/* Barriers in shared memory. Readers wait for `full`, writers wait for `empty`. */
enum {
    BAR_KEYS_FULL = 0,
    BAR_KEYS_EMPTY,
    BAR_Q_FULL,
    BAR_Q_EMPTY = BAR_Q_FULL + STAGES,
    BAR_DO_FULL = BAR_Q_EMPTY + STAGES,
    BAR_DO_EMPTY = BAR_DO_FULL + DO_STAGES,
    BAR_DQ_FULL = BAR_DO_EMPTY + DO_STAGES,
    BAR_DQ_EMPTY = BAR_DQ_FULL + GROUPS * DQ_PLACES,
    BAR_DQ_TURN = BAR_DQ_EMPTY + GROUPS * DQ_PLACES, /* per storer: the previous has its tile */
    BAR_ITEM_FULL = BAR_DQ_TURN + STORERS,
    BAR_ITEM_EMPTY = BAR_ITEM_FULL + RECORDS,
    BAR_ROWS_FULL = BAR_ITEM_EMPTY + RECORDS, /* the number of a tile of rows to finish */
    BAR_ROWS_EMPTY,
    BAR_COUNT,
    RECORDS_AT = (BAR_COUNT + 1) / 2 * 2 /* in units of barriers */
};
#define NOTES_AT       (BARRIER_AT + RECORDS_AT * MBARRIER_BYTES + RECORDS * REC_WORDS * 4)
#define ROWS_NUMBER_AT (NOTES_AT + 4 * GROUPS * 4) /* after one note per consumer warp */
static_assert(ROWS_NUMBER_AT + 4 - BARRIER_AT <= SHARED_SLACK, "they have their place");

/* Named barriers. Both consumer warpgroups take part, except that OWN and FREE are two barriers
 * each, one per warpgroup. bwd_sm90_rows.cuh has one more, number 6. */
enum { NAMED_P = 1, NAMED_DS, NAMED_KEYS, NAMED_OWN, NAMED_FREE = 7 };

/* The barriers of a warpgroup's ring of slots for dQ, and the address of a slot. */
DEVICE int dq_full(int group) {
    return BAR_DQ_FULL + group * DQ_PLACES;
}

DEVICE int dq_empty(int group) {
    return BAR_DQ_EMPTY + group * DQ_PLACES;
}

DEVICE unsigned dq_place(unsigned shared, int group, int place) {
    return shared + DQ_AT + (group * DQ_PLACES + place) * DQ_BYTES;
}

/* The panels that the producer loads per round of a loop: there are few registers. */
enum { PANELS_AT_ONCE = 1 };

/* The slots of Q and of dO to fill next. */
typedef struct row_slots {
    ring q, d_o;
} row_slots;

#endif
