/* bwd_sm90_produce.cuh: the main loop of the producer warp: it takes items of work, announces
 * them to the block, and keeps the copy engine busy. */
#ifndef ATT_BWD_SM90_PRODUCE_CUH
#define ATT_BWD_SM90_PRODUCE_CUH

#include "kernels/bwd_sm90_producer.cuh"
#include "kernels/bwd_sm90_row_tiles.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/speaking_lane.cuh"
#if IS_WIDE
#include "kernels/bwd_sm90_wide_load.cuh"
#else
#include "kernels/bwd_sm90_load.cuh"
#endif

/* Run by one lane once no key tile is left to take: all are done, or in progress in running
 * blocks. While others work, this block turns complete sums into d_q. */
DEVICE void announce_rows(const att_bwd_sm90_params *params, unsigned shared) {
    const att_bwd_params *p = &params->bwd;
    ring at = {0, 0};
    int number;
    do {
        number = (int)atomicAdd(p->next_work + NEXT_ROWS, 1u);
        if (number < row_tile_count(p)) {
            const row_tile t = row_tile_of(p, number);
            if (t.rows <= 0)
                continue;
            wait_for_sums(p, &t);
        } else {
            number = NO_ITEM;
        }
        wait_empty(shared, BAR_ROWS_EMPTY, at);
        write_word(shared + ROWS_NUMBER_AT, number);
        mbarrier_arrive(barrier_of(shared, BAR_ROWS_FULL));
        at = ring_next(at, 1);
    } while (number != NO_ITEM);
}

DEVICE void produce(const att_bwd_sm90_params *p, unsigned shared) {
    producer a = {p, shared, does_speak(), {0, 0}, {0, 0}, {}};
    if (a.speaks) {
        tma_prefetch_map(&p->q);
        tma_prefetch_map(&p->d_o);
        tma_prefetch_map(&p->k);
        tma_prefetch_map(&p->v);
    }
    __syncwarp();
    wait_for_previous_kernel();
#pragma unroll 1
    for (int number = claim_item(&a); number < p->items; number = claim_item(&a)) {
        const work_item w = item_of(p, number);
        announce_item(&a, number, &w);
        ask_l2_for_keys(&a, &w);
        load_item(&a, &w);
    }
    announce_item(&a, NO_ITEM, 0);
    if (USE_FINISH_INSIDE && p->finishes_inside && a.speaks)
        announce_rows(p, shared);
}

#endif
