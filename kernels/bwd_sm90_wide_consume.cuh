/* bwd_sm90_wide_consume.cuh: the main loops of a consumer warpgroup of bwd_sm90_wide: items of
 * work, then tiles of rows to finish. */
#ifndef ATT_BWD_SM90_WIDE_CONSUME_CUH
#define ATT_BWD_SM90_WIDE_CONSUME_CUH

#include "kernels/bwd_sm90_finish_rows.cuh"
#include "kernels/bwd_sm90_wide_keys.cuh"
#if TILE_N == 128
#include "kernels/bwd_sm90_wide_halves.cuh"
#else
#include "kernels/bwd_sm90_wide_columns.cuh"
#endif

/* Process key tiles until there are no more. */
DEVICE void consume(consumer *c, int group) {
    float s[S_COUNT], dk[DK_MOST], dv[DV_MOST];
#pragma unroll 1
    for (;; c->items++) {
        wait_full(c->shared, BAR_ITEM_FULL, {c->items % RECORDS, c->items / RECORDS & 1});
        if (record_of(c, REC_ITEM) == NO_ITEM)
            break;
        clear_sums(dk, DK_COUNT(group));
        clear_sums(dv, DV_COUNT(group));
        wait_full(c->shared, BAR_KEYS_FULL, {0, c->items & 1});
        int block = record_of(c, REC_END_BLOCK) - 1;
        if (block >= record_of(c, REC_FIRST_BLOCK))
            begin_steps(c, group, s);
#pragma unroll 1
        for (int head = 0; block >= record_of(c, REC_FIRST_BLOCK); c->steps++) {
            const bool is_last_head = head == c->p->bwd.fwd.group - 1;
            take_step(c, group, block, is_last_head && block == record_of(c, REC_FIRST_BLOCK),
                      s, dk, dv);
            head = is_last_head ? 0 : head + 1;
            block -= is_last_head;
        }
        wgmma_results(dk, DK_COUNT(group));
        wgmma_results(dv, DV_COUNT(group));
        store_keys(c, group, dk, dv);
        release(c, BAR_ITEM_EMPTY + c->items % RECORDS);
    }
    end_steps(c, group);
}

/* Finish tiles of rows whose sums are complete, until there are no more. */
DEVICE void finish_rows(const consumer *c, int thread) {
    half_bits *rounded = (half_bits *)__cvta_shared_to_generic(c->shared + Q_AT);
    row_tile t;
#pragma unroll 1
    for (ring at = {0, 0}; take_rows(c, at, &t); at = ring_next(at, 1))
        finish_tile(&c->p->bwd, &t, rounded, thread);
}

#endif
