/* bwd_sm90_consume.cuh: the main loops of a consumer warpgroup of bwd_sm90: row blocks, items
 * of work, and tiles of rows to finish. */
#ifndef ATT_BWD_SM90_CONSUME_CUH
#define ATT_BWD_SM90_CONSUME_CUH

#include "kernels/bwd_sm90_finish_rows.cuh"
#include "kernels/bwd_sm90_keys.cuh"
#include "kernels/bwd_sm90_step.cuh"

/* dQ and dK of a step on the tensor cores, after dV. */
DEVICE void multiply_step(consumer *c, const unsigned p[P_COUNT], const unsigned ds[P_COUNT],
                          float dk[DK_COUNT], float dv[DV_COUNT], unsigned base) {
    float dq[DQ_COUNT];
    put_pairs(c, ds, c->ds);
    if (!HAS_EARLY_DV)
        add_dv(dv, p, base, DO_AT + c->rows.place * DO_BYTES);
    tma_publish();
    named_barrier_wait(NAMED_DS, GROUPS * WARPGROUP);
    multiply_dq(dq, base, DS_AT + c->ds * DS_BYTES, c->group);
    WGMMA_WAIT(1); /* dV */
    release(c, BAR_DO_EMPTY + c->rows.place);
    add_dk(dk, ds, base, Q_AT + c->rows.place * Q_BYTES);
    WGMMA_WAIT(1); /* dQ */
    wgmma_results(dq, DQ_COUNT);
    put_dq(c, dq);
    if (!USE_LATE_PUBLISH)
        publish_dq(c);
    WGMMA_WAIT(0);
    if (USE_LATE_PUBLISH) /* the writes have completed by now */
        publish_dq(c);
}

/* One row block. No product is in flight when it begins or ends. */
DEVICE void take_step(consumer *c, int block, float dk[DK_COUNT], float dv[DV_COUNT]) {
    float s[S_COUNT], dp[S_COUNT];
    unsigned p[P_COUNT], ds[P_COUNT];
    const unsigned base = operand_base(c);
    const unsigned lses =
        c->shared + ROWS_AT + c->rows.place * ROWS_BYTES + c->lane % 4 * sizeof(row_pair);
    row_pair ahead[8];
    wait_full(c->shared, BAR_Q_FULL, c->rows);
    wait_full(c->shared, BAR_DO_FULL,
              c->rows); /* a branch behind the loads would wait for them */
    load_ahead(ahead, LSES_AHEAD, lses);
    multiply_rows(s, base, K_AT, Q_AT + c->rows.place * Q_BYTES, c->group, D_QK);
    multiply_rows(dp, base, V_AT, DO_AT + c->rows.place * DO_BYTES, c->group, D_V);
    WGMMA_WAIT(1); /* S */
    wgmma_results(s, S_COUNT);
    if (FEATURES)
        weigh_shaped(s, p, c, block, ahead, lses);
    else
        weigh(s, c->p->bwd.fwd.scale_log2, ahead, lses);
    if (hides_pairs(c, block)) {
        const step_mask m = mask_of(c, block);
        hide_pairs(s, &m);
        if (HAS_SOFTCAP)
            hide_packed(p, &m);
    }
    if (!HAS_SOFTCAP)
        round_pairs(p, s);
    settle(s, S_COUNT);
    load_ahead(ahead, DELTAS_AHEAD, lses + DELTAS);
    if (HAS_EARLY_DV) {
        add_dv(dv, p, base, DO_AT + c->rows.place * DO_BYTES);
        WGMMA_WAIT(1); /* dP */
    } else {
        WGMMA_WAIT(0);
    }
    wgmma_results(dp, S_COUNT);
    make_ds(dp, s, ahead, lses + DELTAS);
    if (hides_pairs(c, block))
        hide_ds(dp, s);
    round_pairs(ds, dp);
    multiply_step(c, p, ds, dk, dv, base);
    c->ds ^= 1;
    release(c, BAR_Q_EMPTY + c->rows.place);
    c->rows = ring_next(c->rows, STAGES);
}

/* The ALiBi slope of a query head of the item's group, in units of log2. */
DEVICE float slope_of_head(const consumer *c, int head) {
    const att_fwd_params *f = &c->p->bwd.fwd;
    return f->alibi[record_of(c, REC_BATCH) * f->alibi_batch +
                    record_of(c, REC_KV_HEAD) * f->group + head] *
           LOG2_E;
}

/* Process key tiles until there are no more. */
DEVICE void consume(consumer *c) {
    float dk[DK_COUNT], dv[DV_COUNT];
#pragma unroll 1
    for (;;) {
        wait_full(c->shared, BAR_ITEM_FULL, c->records);
        if (record_of(c, REC_ITEM) == NO_ITEM)
            return;
        clear_sums(dk, DK_COUNT);
        clear_sums(dv, DV_COUNT);
        mbarrier_wait(barrier_of(c->shared, BAR_KEYS_FULL), c->keys.parity);
        c->keys = ring_next(c->keys, 1);
        const int first = record_of(c, REC_FIRST_BLOCK);
        const int end = record_of(c, REC_END_BLOCK);
        c->clear_first = record_of(c, REC_CLEAR_FIRST);
        c->clear_end = record_of(c, REC_CLEAR_END);
#pragma unroll 1
        for (int block = end - 1; block >= first; block--)
#pragma unroll 1
            for (int head = 0; head < c->p->bwd.fwd.group; head++) {
                if (HAS_ALIBI)
                    c->slope = slope_of_head(c, head);
                take_step(c, block, dk, dv);
            }
        wgmma_results(dk, DK_COUNT);
        wgmma_results(dv, DV_COUNT);
        note_lost(c, zero_times(dk, DK_COUNT) + zero_times(dv, DV_COUNT));
        store_keys(c, dk, dv);
        release(c, BAR_ITEM_EMPTY + c->records.place);
        c->records = ring_next(c->records, RECORDS);
    }
}

/* Finish tiles of rows whose sums are complete, until there are no more. */
DEVICE void finish_rows(const consumer *c) {
    half_bits *rounded = (half_bits *)__cvta_shared_to_generic(c->shared + Q_AT);
    row_tile t;
#pragma unroll 1
    for (ring at = {0, 0}; take_rows(c, at, &t); at = ring_next(at, 1))
        finish_tile(&c->p->bwd, &t, rounded, consumer_thread(c));
}

#endif
