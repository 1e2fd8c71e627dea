/* bwd_sm90_finish_rows.cuh: how consumers take the tiles of rows to finish that the producer
 * announces when the block has run out of items. */
#ifndef ATT_BWD_SM90_FINISH_ROWS_CUH
#define ATT_BWD_SM90_FINISH_ROWS_CUH

#include "kernels/bwd_sm90_consumer.cuh"
#include "kernels/bwd_sm90_rows.cuh"

static_assert(STAGES * Q_BYTES >= TILE_M * ROWS_PITCH * 2,
              "a rounded tile of dQ fits where Q was");

/* Wait for the next tile of rows to finish. False if there are no more. */
DEVICE bool take_rows(const consumer *c, ring at, row_tile *t) {
    wait_full(c->shared, BAR_ROWS_FULL, at);
    const int number = shared_word(c->shared + ROWS_NUMBER_AT);
    if (number == NO_ITEM)
        return false;
    release(c, BAR_ROWS_EMPTY);
    named_barrier_wait(NAMED_KEYS,
                       GROUPS * WARPGROUP); /* nobody reads the previous tile any more */
    *t = row_tile_of(&c->p->bwd, number);
    return true;
}

#endif
