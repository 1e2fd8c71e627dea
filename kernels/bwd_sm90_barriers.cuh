/* bwd_sm90_barriers.cuh: waiting at the barriers in shared memory, and reading the records of
 * items that they guard. */
#ifndef ATT_BWD_SM90_BARRIERS_CUH
#define ATT_BWD_SM90_BARRIERS_CUH

#include "kernels/bwd_sm90_layout.cuh"
#include "kernels/mbarrier.cuh"
#include "kernels/ring.cuh"
#include "kernels/shared_words.cuh"

DEVICE unsigned barrier_of(unsigned shared, int which) {
    return shared + BARRIER_AT + MBARRIER_BYTES * which;
}

/* Readers wait until the slot is full, writers until it is empty. */
DEVICE void wait_full(unsigned shared, int full, ring at) {
    mbarrier_wait(barrier_of(shared, full + at.place), at.parity);
}

DEVICE void wait_empty(unsigned shared, int empty, ring at) {
    mbarrier_wait_long(barrier_of(shared, empty + at.place), at.parity ^ 1);
}

DEVICE unsigned record_place(unsigned shared, int place, int what) {
    return barrier_of(shared, RECORDS_AT) + 4 * (REC_WORDS * place + what);
}

/* Word `what` of the record at `place`. */
DEVICE int record_word(unsigned shared, int place, int what) {
    return shared_word(record_place(shared, place, what));
}

/* The barriers of what the producer announces: items, and tiles of rows to finish. */
DEVICE void init_announcement_barriers(unsigned shared) {
    for (int n = 0; n < RECORDS; n++) {
        mbarrier_init(barrier_of(shared, BAR_ITEM_FULL + n), 1);
        mbarrier_init(barrier_of(shared, BAR_ITEM_EMPTY + n), 4 * GROUPS + STORERS);
    }
    mbarrier_init(barrier_of(shared, BAR_ROWS_FULL), 1);
    mbarrier_init(barrier_of(shared, BAR_ROWS_EMPTY), 4 * GROUPS);
}

#endif
