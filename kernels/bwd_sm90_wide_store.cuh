/* bwd_sm90_wide_store.cuh: the storers, warps that add tiles of dQ to its sums in global memory, in a fixed order: that of the key tiles.
 *
 * A tile comes in halves of panels, in turn from both warpgroups. It is added once its predecessor is, and the first one is stored: no sum is ever cleared. To
 * wait for the predecessor, to add, and to wait for the end of that takes long: three storers do it in turn. */
#ifndef ATT_BWD_SM90_WIDE_STORE_CUH
#define ATT_BWD_SM90_WIDE_STORE_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_wide_shared.cuh"
#include "kernels/bwd_sm90_work.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/semaphore.cuh"

/* What a storer keeps, in as few registers as that takes: the rest comes of the record of the item, and of how many steps there were. */
typedef struct storer {
    const att_bwd_sm90_params *p;
    unsigned shared, items, steps;
} storer;

DEVICE int item_word(const storer *a, int what) {
    return record_word(a->shared, (int)(a->items % RECORDS), what);
}

/* The next half of a panel of a warpgroup, once it is there: added, or stored. The barrier of its place. */
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

/* Halves of a tile of dQ, from both warpgroups in turn. A place is free once the copy behind its own has begun, and its own has been read. */
DEVICE void add_halves(const storer *a, float *to, bool is_first) {
    unsigned last = 0;
#pragma unroll
    for (int half = 0; half < DQ_HALVES_MOST; half++)
#pragma unroll
        for (int group = 0; group < GROUPS; group++)
            if (half < DQ_HALVES_OF(group)) {
                const unsigned place = add_half(
                    a, to + DQ_HALF(group, half) * (DQ_BYTES / 4), group, half, is_first);
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

/* The tile of dQ of one step, once those of the key tiles before are in the sum. Storers look at the rings one after the other: a barrier tells only this phase
 * from the next. */
DEVICE void add_tile(const storer *a, int block, int head) {
    const att_bwd_params *p = &a->p->bwd;
    const int tile = item_word(a, REC_TILE);
    sequence s;
    s.shift = item_word(a, REC_SHIFT);
    const int before = turn_of(a->p, &s, block, tile);
    const unsigned number = (item_word(a, REC_KV_HEAD) * p->fwd.group + head) * p->tiles +
                            item_word(a, REC_BLOCK) + block,
                   index = number * p->turn_count + tile % p->turn_count; /* 32 bits hold them */
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

/* One lane of a warp: the steps of all items that the block takes, every STORERS-th of them. */
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
