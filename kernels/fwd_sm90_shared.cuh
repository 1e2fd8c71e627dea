/* fwd_sm90_shared.cuh: the layout of a block's shared memory, and the barriers that guard it.
 *
 * Tiles are stored as panels of 64 columns (fwd_sm90_tiles.cuh). If there is room, there are
 * two buffers for Q, so that the next tile's first scores need not wait for this one's O, and
 * one for O; otherwise O is stored through Q's. If Q goes to registers immediately, one buffer
 * is enough. V's slots are freed last: room that is left holds a further tile of V. */
#ifndef ATT_FWD_SM90_SHARED_CUH
#define ATT_FWD_SM90_SHARED_CUH

#include "kernels/fwd_sm90_registers.cuh"
#include "kernels/fwd_sm90_tiles.cuh"
#include "kernels/mbarrier.cuh"
#include "kernels/ring.cuh"
#include "kernels/shared_words.cuh"
#include "kernels/speaking_lane.cuh"

#define GROUPS       (TILE_M / 64) /* consumer warpgroups */
#define PANELS(a, b) ((a) > (b) ? (a) : (b))

#define SHARED_MOST  (227 * 1024)
#define SHARED_SLACK (1024 + 1024) /* barriers and other small data; alignment to 1024 bytes */
#define BASE_BYTES   (STAGES * (K_BYTES + V_BYTES) + SHARED_SLACK)
#define SHARED_PLACE (64 * ROW_BYTES * PANELS(QK_PANELS, V_PANELS)) /* for Q, then O */
#define RICH_BYTES   (BASE_BYTES + GROUPS * (2 * Q_BYTES + O_BYTES))
#define FAIR_BYTES   (BASE_BYTES + GROUPS * 2 * SHARED_PLACE)
#define POOR_BYTES   (BASE_BYTES + GROUPS * SHARED_PLACE)
#define OWN_O        (RICH_BYTES <= SHARED_MOST)
#define TWO_Q        (OWN_O || FAIR_BYTES <= SHARED_MOST)
#define PLAIN_BYTES  (OWN_O ? RICH_BYTES : TWO_Q ? FAIR_BYTES : POOR_BYTES)

/* Q stays in registers if they can hold it along with S, P and O. */
#define Q_IN_REGISTERS                                                                         \
    (USE_Q_REGISTERS && IS_PLAIN && GROUPS == 2 &&                                             \
     S_COUNT + O_COUNT + P_COUNT + 4 * K_STEPS <= 192)

/* A further tile of V: in place of a second Q, or in the room that is left with two stages. */
#define ONE_Q    (USE_LONG_V_RING && OWN_O && Q_IN_REGISTERS && V_BYTES <= GROUPS * Q_BYTES)
#define HAS_ROOM (STAGES == 2 && PLAIN_BYTES + V_BYTES <= SHARED_MOST)
#define V_STAGES (STAGES + (!HAS_BIAS && (ONE_Q || (USE_LONG_V_RING && HAS_ROOM))))
#define Q_STAGES (TWO_Q && !ONE_Q ? 2 : 1)
#define Q_PLACE  (OWN_O ? Q_BYTES : SHARED_PLACE)

#define K_AT    (Q_STAGES * GROUPS * Q_PLACE)
#define V_AT    (K_AT + STAGES * K_BYTES)
#define O_AT    (V_AT + V_STAGES * V_BYTES)
#define BIAS_AT (O_AT + (OWN_O ? GROUPS * O_BYTES : 0))

/* The bias takes the room of a second Q and of a further tile of V: one ring of its tiles per
 * warpgroup. */
#define BIAS_STAGES    2
#define BIAS_BOX       (TILE_N % 64 ? 32 : 64) /* columns per copy */
#define BIAS_BOX_BYTES (64 * 2 * BIAS_BOX)
#define BIAS_BYTES     (TILE_N / BIAS_BOX * BIAS_BOX_BYTES)
#define BARRIER_AT     (BIAS_AT + (HAS_BIAS ? GROUPS * BIAS_STAGES * BIAS_BYTES : 0))
static_assert(!HAS_BIAS || (TILE_N % BIAS_BOX == 0 && GROUPS <= 2 && (ONE_Q || !TWO_Q)),
              "whole boxes, a warp for each warpgroup, room");

CHECK_SHARED(HAS_BIAS ? BARRIER_AT + SHARED_SLACK : PLAIN_BYTES + (HAS_ROOM ? V_BYTES : 0));
static_assert(BARRIER_AT + SHARED_SLACK <= SHARED_MOST, "a block fits, whatever it has beside");
static_assert(PLAIN_BYTES <= SHARED_MOST, "a block fits");
static_assert(TILE_M % 64 == 0 && TILE_N % 16 == 0, "whole products of 64 rows and 16 keys");
static_assert(WARPS == 4 * (GROUPS + 1), "a producer warpgroup and the consumers");

/* The description of a tile, for all warps that work on it. It is kept here because registers
 * are full of tensor-core results. Records form a ring, as Q's buffers do: the n-th use of
 * either is for the n-th tile that the block takes. */
enum {
    REC_TILE, /* its number, or NO_TILE */
    REC_ROW0, /* its first row */
    REC_ROWS, /* rows of its unit */
    REC_FIRST,
    REC_LAST, /* tiles of keys that some row sees */
    REC_LEN_K,
    REC_SHIFT, /* of the diagonal */
    REC_HEAD,  /* of the unit */
    REC_BATCH,
    REC_ROW_Q,        /* first row of the sequence in packed O */
    REC_O_ROW = 10,   /* address of the tile's first row in O or its part: two words */
    REC_LSE_ROW = 12, /* and in LSE, 0: not requested; or among the sums of its part */
    REC_FIRST_K = 14, /* GENERAL: the first key in use, from which keys are counted */
    REC_SLOPE = 14,   /* ALiBi: the head's slope, in units of log2 */
    REC_TURNED = 15,  /* ALiBi: tile_work.turned */
    REC_LIST = 16,    /* boolean masks: the list, and its last att_fwd_mask_tile */
    REC_LIST_TILE = 17,
    REC_LIST_KINDS = 18,
    REC_WORDS = HAS_MASK ? 20 : 16
};
enum { RECORDS = 4, NO_TILE = -1 };

/* Barriers in shared memory. Consumers wait for `full`, the producer for `empty`. */
enum {
    K_FULL = 0,
    K_EMPTY = K_FULL + STAGES,
    V_FULL = K_EMPTY + STAGES,
    V_EMPTY = V_FULL + V_STAGES,
    Q_FULL = V_EMPTY + V_STAGES, /* one per warpgroup */
    Q_EMPTY = Q_FULL + 2 * GROUPS,
    O_FULL = Q_EMPTY + 2 * GROUPS, /* one per warpgroup; the storer waits for it */
    O_EMPTY = O_FULL + GROUPS,     /* consumers wait for it */
    STORED = O_EMPTY + GROUPS,     /* all of O has been stored */
    TILE_FULL = STORED + 1,
    TILE_EMPTY = TILE_FULL + RECORDS,
    BIAS_FULL = TILE_EMPTY + RECORDS, /* a ring per warpgroup */
    BIAS_EMPTY = BIAS_FULL + (HAS_BIAS ? GROUPS * BIAS_STAGES : 0),
    RECORDS_AT = (BIAS_EMPTY + (HAS_BIAS ? GROUPS * BIAS_STAGES : 0) + 1) / 2 * 2,
    NOTES_AT = RECORDS_AT + RECORDS * REC_WORDS / 2 /* one word per consumer warp */
};
static_assert(NOTES_AT * MBARRIER_BYTES + 4 * 4 * GROUPS <= 1024, "they have their place");

/* Named barriers. */
enum {
    TURN = 1,           /* TURN + w: w may use the tensor cores; of w and the one before it */
    OWN = TURN + GROUPS /* the threads of warpgroup w: OWN + w */
};

/* A ring of `places` slots, a power of two: the slot of the n-th use, and the parity that
 * consumers wait for there. */
DEVICE int place_of(int n, int places) {
    return n & (places - 1);
}

DEVICE int parity_of(int n, int places) {
    return (int)((unsigned)n / (unsigned)places & 1u);
}

DEVICE unsigned barrier_of(unsigned shared, int which) {
    return shared + BARRIER_AT + MBARRIER_BYTES * which;
}

/* The buffer of a warpgroup's O of the n-th tile. */
DEVICE unsigned o_place(unsigned shared, int n, int group) {
    return shared + (OWN_O ? O_AT + group * O_BYTES
                           : (place_of(n, Q_STAGES) * GROUPS + group) * Q_PLACE);
}

/* Word `what` of the n-th record. */
DEVICE unsigned record_place(unsigned shared, int n, int what) {
    return barrier_of(shared, RECORDS_AT) + 4 * (REC_WORDS * place_of(n, RECORDS) + what);
}

DEVICE int record_word(unsigned shared, int n, int what) {
    return shared_word(record_place(shared, n, what));
}

DEVICE unsigned long long record_address(unsigned shared, int n, int what) {
    unsigned long long value;
    asm volatile("ld.shared.b64 %0, [%1];"
                 : "=l"(value)
                 : "r"(record_place(shared, n, what))
                 : "memory");
    return value;
}

/* Wait until the n-th use of a ring is full; for the producer: until its slot is empty. */
DEVICE void wait_full(unsigned shared, int full, int n, int places) {
    mbarrier_wait(barrier_of(shared, full + place_of(n, places)), parity_of(n, places));
}

DEVICE void wait_empty(unsigned shared, int empty, int n, int places) {
    mbarrier_wait(barrier_of(shared, empty + place_of(n, places)), parity_of(n, places) ^ 1);
}

#endif
