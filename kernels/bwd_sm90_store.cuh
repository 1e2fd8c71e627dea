/* bwd_sm90_store.cuh: the storers: warps that add tiles of dQ to the sums in global memory, in
 * a fixed order, that of the key tiles.
 *
 * A tile is added once its predecessor has been. The first one is stored, so sums are never
 * cleared. Waiting for the predecessor, adding, and waiting for the addition to complete take
 * longer than a step, so three storers take turns. */
#ifndef ATT_BWD_SM90_STORE_CUH
#define ATT_BWD_SM90_STORE_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_barriers.cuh"
#include "kernels/bwd_sm90_work.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/semaphore.cuh"

/* Add the tile of dQ of one step. `number` is that of the tile of rows; `before` is how many
 * key tiles are added to the sum first. */
DEVICE void add_tile(const att_bwd_sm90_params *p, unsigned shared, unsigned step, int number,
                     int set, int before) {
    const long long index = (long long)number * p->bwd.turn_count + set;
    float *to = p->bwd.d_q_sums + index * (DQ_BYTES / 4);
    unsigned *counter = p->bwd.turns + index;
    const int place = (int)(step % DQ_PLACES);
    if (before > 0) {
        semaphore_wait(counter, USE_ORDERED_DQ ? before : 1);
        bulk_fence();
    }
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        mbarrier_wait_long(barrier_of(shared, BAR_DQ_FULL + step % STORERS * GROUPS + group),
                           step / STORERS & 1);
        const unsigned from = shared + DQ_AT + place * DQ_BYTES + group * (DQ_BYTES / GROUPS);
        if (before == 0)
            bulk_store(to + group * (DQ_BYTES / GROUPS / 4), from, DQ_BYTES / GROUPS);
        else
            bulk_add(to + group * (DQ_BYTES / GROUPS / 4), from, DQ_BYTES / GROUPS);
        tma_store_commit();
    }
    bulk_wait_read_all_but_last();
    mbarrier_arrive(barrier_of(shared, BAR_DQ_EMPTY + place * GROUPS));
    tma_store_wait_read();
    mbarrier_arrive(barrier_of(shared, BAR_DQ_EMPTY + place * GROUPS + 1));
    tma_store_wait();
    bulk_fence();
    semaphore_count(counter);
}

/* Run by one lane of a warp: every STORERS-th step of all items that the block takes. */
DEVICE void store_sums(const att_bwd_sm90_params *p, unsigned shared, int storer) {
    unsigned step = 0;
    wait_for_previous_kernel();
#pragma unroll 1
    for (unsigned n = 0;; n++) { /* counts items; one register, since there are few */
        const int place = (int)(n % RECORDS);
        mbarrier_wait_long(barrier_of(shared, BAR_ITEM_FULL + place), (int)(n / RECORDS % 2));
        if (record_word(shared, place, REC_ITEM) == NO_ITEM)
            return;
        const int first = record_word(shared, place, REC_FIRST_BLOCK),
                  end = record_word(shared, place, REC_END_BLOCK);
        const int tile = record_word(shared, place, REC_TILE), set = tile % p->bwd.turn_count;
        /* The number of row block 0 of the group's first head. */
        int number = record_word(shared, place, REC_KV_HEAD) * p->bwd.fwd.group * p->bwd.tiles +
                     record_word(shared, place, REC_BLOCK);
        sequence s;
        s.shift = record_word(shared, place, REC_SHIFT);
        mbarrier_arrive(barrier_of(shared, BAR_ITEM_EMPTY + place));
#pragma unroll 1
        for (int block = end - 1; block >= first; block--) {
            const int before = turn_of(p, &s, block, tile);
#pragma unroll 1
            for (int head = 0; head < p->bwd.fwd.group; head++, step++)
                if (step % STORERS == (unsigned)storer)
                    add_tile(p, shared, step, number + head * p->bwd.tiles + block, set,
                             before);
        }
    }
}

#endif
