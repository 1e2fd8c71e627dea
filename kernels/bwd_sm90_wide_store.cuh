/* bwd_sm90_wide_store.cuh: the storers: warps that add tiles of dQ to the sums in global
 * memory, in a fixed order, that of the key tiles.
 *
 * A tile comes in halves of panels, alternately from both warpgroups. It is added once its
 * predecessor has been. The first one is stored, so sums are never cleared. Waiting for the
 * predecessor, adding, and waiting for the addition to complete take long, so three storers
 * take turns. */
#ifndef ATT_BWD_SM90_WIDE_STORE_CUH
#define ATT_BWD_SM90_WIDE_STORE_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_barriers.cuh"
#include "kernels/bwd_sm90_work.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/semaphore.cuh"

/* The state of a storer, in as few registers as possible: the rest follows from the item's
 * record and the count of steps. */
typedef struct storer {
    const att_bwd_sm90_params *p;
    unsigned shared, items, steps;
} storer;

DEVICE int item_word(const storer *a, int what) {
    return record_word(a->shared, (int)(a->items % RECORDS), what);
}

/* Add or store the next half panel of a warpgroup, once it is in its slot. Returns the barrier
 * that frees the slot. */
DEVICE unsigned add_half(const storer *a, float *to, int group, int half, bool is_first) {
    const unsigned use = a->steps * DQ_HALVES_OF(group) + half;
    const int place = (int)(use % DQ_PLACES);
    mbarrier_wait_long(barrier_of(a->shared, dq_full(group) + place),
                       (int)(use / DQ_PLACES & 1));
    if (is_first)
        bulk_store(to, dq_place(a->shared, group, place), DQ_BYTES);
    else
        bulk_add(to, dq_place(a->shared, group, place), DQ_BYTES);
    tma_store_commit();
    return barrier_of(a->shared, dq_empty(group) + place);
}

/* The halves of a tile of dQ, alternately from both warpgroups. A slot is freed when the copy
 * after its own has been started and its own has been read. */
DEVICE void add_halves(const storer *a, float *to, bool is_first) {
    unsigned last = 0;
#pragma unroll
    for (int half = 0; half < DQ_HALVES_MOST; half++)
#pragma unroll
        for (int group = 0; group < GROUPS; group++)
            if (half < DQ_HALVES_OF(group)) {
                const unsigned place = add_half(a, to + DQ_HALF(group, half) * (DQ_BYTES / 4),
                                                group, half, is_first);
                if (last) {
                    bulk_wait_read_all_but_last();
                    mbarrier_arrive(last);
                }
                last = place;
            }
    mbarrier_arrive(barrier_of(a->shared, BAR_DQ_TURN + (a->steps + 1) % STORERS));
    tma_store_wait_read();
    mbarrier_arrive(last);
}

/* Add the tile of dQ of one step, once those of the earlier key tiles are in the sum. Storers
 * wait at the rings one after the other, because a barrier distinguishes only the current phase
 * from the next. */
DEVICE void add_tile(const storer *a, int block, int head) {
    const att_bwd_params *p = &a->p->bwd;
    const int tile = item_word(a, REC_TILE);
    sequence s;
    s.shift = item_word(a, REC_SHIFT);
    const int before = turn_of(a->p, &s, block, tile);
    const unsigned number = (item_word(a, REC_KV_HEAD) * p->fwd.group + head) * p->tiles +
                            item_word(a, REC_BLOCK) + block,
                   index = number * p->turn_count + tile % p->turn_count; /* fits 32 bits */
    if (before > 0) {
        semaphore_wait(p->turns + index, USE_ORDERED_DQ ? before : 1);
        bulk_fence();
    }
    mbarrier_wait_long(barrier_of(a->shared, BAR_DQ_TURN + a->steps % STORERS),
                       (int)(a->steps / STORERS & 1));
    add_halves(a, p->d_q_sums + (long long)index * (DQ_HALVES * (DQ_BYTES / 4)), before == 0);
    tma_store_wait();
    bulk_fence();
    semaphore_count(p->turns + index);
}

/* Run by one lane of a warp: every STORERS-th step of all items that the block takes. */
DEVICE void store_sums(const att_bwd_sm90_params *p, unsigned shared, int which) {
    storer a = {p, shared, 0, 0};
    if (which == 0)
        mbarrier_arrive(barrier_of(shared, BAR_DQ_TURN));
    wait_for_previous_kernel();
#pragma unroll 1
    for (;; a.items++) {
        mbarrier_wait_long(barrier_of(shared, BAR_ITEM_FULL + a.items % RECORDS),
                           (int)(a.items / RECORDS % 2));
        if (item_word(&a, REC_ITEM) == NO_ITEM)
            return;
#pragma unroll 1
        for (int block = item_word(&a, REC_END_BLOCK) - 1;
             block >= item_word(&a, REC_FIRST_BLOCK); block--)
#pragma unroll 1
            for (int head = 0; head < p->bwd.fwd.group; head++, a.steps++)
                if (a.steps % STORERS == (unsigned)which)
                    add_tile(&a, block, head);
        mbarrier_arrive(barrier_of(shared, BAR_ITEM_EMPTY + a.items % RECORDS));
    }
}

#endif
