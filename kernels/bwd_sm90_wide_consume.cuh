/* bwd_sm90_wide_consume.cuh: the main loops of a consumer warpgroup: items of work, then tiles
 * of rows to finish. */
#ifndef ATT_BWD_SM90_WIDE_CONSUME_CUH
#define ATT_BWD_SM90_WIDE_CONSUME_CUH

#include "kernels/bwd_sm90_wide_keys.cuh"
#include "kernels/bwd_sm90_wide_rows.cuh"
#if TILE_N == 128
#include "kernels/bwd_sm90_wide_halves.cuh"
#else
#include "kernels/bwd_sm90_wide_columns.cuh"
#endif

/* The asm statement keeps the zeroing here. The compiler would otherwise move it below products
 * in flight and wait for each of them. */
DEVICE void clear_sums(float *x, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        asm volatile("mov.f32 %0, 0f00000000;" : "=f"(x[i]));
}

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
            take_step(c, group, block,
                      is_last_head && block == record_of(c, REC_FIRST_BLOCK), s, dk, dv);
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
    static_assert(STAGES * Q_BYTES >= TILE_M * ROWS_PITCH * 2,
                  "a rounded tile of dQ fits where Q was");
#pragma unroll 1
    for (ring at = {0, 0};; at = ring_next(at, 1)) {
        wait_full(c->shared, BAR_ROWS_FULL, at);
        const int number = shared_word(c->shared + ROWS_NUMBER_AT);
        if (number == NO_ITEM)
            return;
        release(c, BAR_ROWS_EMPTY);
        named_barrier_wait(NAMED_KEYS,
                           GROUPS * WARPGROUP); /* nobody reads the previous tile any more */
        const row_tile t = row_tile_of(&c->p->bwd, number);
        finish_tile(&c->p->bwd, &t, rounded, thread);
    }
}

#endif
