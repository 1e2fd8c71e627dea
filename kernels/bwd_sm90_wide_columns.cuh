/* bwd_sm90_wide_columns.cuh: a row block when the warpgroups split the columns: each computes
 * the scores of 32 keys, and one or two panels of dK, dV and dQ. */
#ifndef ATT_BWD_SM90_WIDE_COLUMNS_CUH
#define ATT_BWD_SM90_WIDE_COLUMNS_CUH

#include "kernels/bwd_sm90_wide_step.cuh"

/* dQ and dK of a step. Stores wait behind the products that a warp has started, so one panel of
 * dQ is stored while dK is in flight, and the other one after it. */
DEVICE void multiply_ds(const consumer *c, int group, float dk[DK_MOST], unsigned base) {
    float dq[DQ_MOST];
    multiply_dq(dq, 64 * DQ_SHARE(group), base,
                keys_at(base, K_AT + group * DQ_FIRST * KEY_PANEL_BYTES));
    wgmma_commit();
    add_panels(
        dk, DK_SHARE(group), rows_at(base, DS_AT),
        rows_at(base, Q_AT + q_ring(c, 0).place * Q_BYTES + group * DK_FIRST * PANEL_BYTES));
    wgmma_commit();
    WGMMA_WAIT(1); /* dQ */
    wgmma_results(dq, DQ_COUNT(group));
    put_half(c, dq, group, 0);
    put_half(c, dq + HALF_COUNT, group, 1);
    WGMMA_WAIT(0);
    publish_halves(c, group, 0, 2);
    release(c, BAR_Q_EMPTY + q_ring(c, 0).place);
    if (DQ_SHARE(group) == 2) {
        put_half(c, dq + 2 * HALF_COUNT, group, 2);
        put_half(c, dq + 3 * HALF_COUNT, group, 3);
        publish_halves(c, group, 2, 4);
    }
}

/* Start the scores of the step that is `ahead` of this one: steps [begin, end) of their
 * sums. */
DEVICE void begin_scores(const consumer *c, int group, int ahead, float s[S_COUNT],
                         unsigned base, int begin, int end) {
    const ring q = q_ring(c, ahead);
    wait_full(c->shared, BAR_Q_FULL, q);
    multiply_keys(s, GROUP_KEYS, rows_at(base, Q_AT + q.place * Q_BYTES),
                  keys_at(base, K_AT + group * GROUP_KEYS * ROW_BYTES), begin, end);
}

/* Before the first step of an item: compute its scores. */
DEVICE void begin_steps(const consumer *c, int group, float s[S_COUNT]) {
    begin_scores(c, group, 0, s, operand_base(c), 0, QK_STEPS);
    wgmma_commit();
    WGMMA_WAIT(0);
    wgmma_results(s, S_COUNT);
}

DEVICE void end_steps(const consumer *c, int group) {
    (void)c, (void)group;
}

/* A row block whose scores are already computed. No product is in flight when it begins or
 * ends. The scores of the next row block are computed while the warpgroups wait for each
 * other's P and for each other's dS. After the last row block, its own scores are computed
 * again, because a conditional product would serialise those around it. P of the previous step
 * has been read by both warpgroups when they meet at that step's dS, and dS when they meet at
 * this step's P: each has waited for its products by then. */
DEVICE void take_step(const consumer *c, int group, int block, bool is_last, float s[S_COUNT],
                      float dk[DK_MOST], float dv[DV_MOST]) {
    float dp[DP_COUNT], next[S_COUNT];
    const unsigned base = operand_base(c);
    const int do_at = DO_AT + do_ring(c).place * DO_BYTES, ahead = is_last ? 0 : 1;
    const row_terms terms = load_terms(c);
    const int hides = hides_pairs(c, block);
    wait_full(c->shared, BAR_DO_FULL, do_ring(c));
    multiply_keys(dp, GROUP_KEYS, rows_at(base, do_at),
                  keys_at(base, V_AT + group * GROUP_KEYS * ROW_BYTES), 0, V_STEPS);
    wgmma_commit();
    weigh_seen(c, s, group, block, hides, &terms);
    put_pairs(c, s, P_AT, group);
    tma_publish();
    begin_scores(c, group, ahead, next, base, 0, QK_STEPS / 2);
    wgmma_commit();
    named_barrier_wait(NAMED_P, GROUPS * WARPGROUP);
    add_panels(dv, DV_SHARE(group), rows_at(base, P_AT),
               rows_at(base, do_at + group * DV_FIRST * PANEL_BYTES));
    wgmma_commit();
    WGMMA_WAIT(2); /* dP */
    wgmma_results(dp, DP_COUNT);
    make_ds(dp, s, &terms, hides);
    put_pairs(c, dp, DS_AT, group);
    tma_publish();
    WGMMA_WAIT(0); /* dV */
    release(c, BAR_DO_EMPTY + do_ring(c).place);
    begin_scores(c, group, ahead, next, base, QK_STEPS / 2, QK_STEPS);
    wgmma_commit();
    named_barrier_wait(NAMED_DS, GROUPS * WARPGROUP);
    multiply_ds(c, group, dk, base);
    wgmma_results(next, S_COUNT);
#pragma unroll
    for (int i = 0; i < S_COUNT; i++)
        s[i] = next[i];
}

#endif
