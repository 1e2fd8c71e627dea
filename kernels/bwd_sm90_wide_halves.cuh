/* bwd_sm90_wide_halves.cuh: a row block when the warpgroups split the keys: each computes the
 * scores, dK and dV of 64 keys, and half of the columns of dQ for all 128. dP is computed 32
 * keys at a time: there are no registers for more beside dK and dV. */
#ifndef ATT_BWD_SM90_WIDE_HALVES_CUH
#define ATT_BWD_SM90_WIDE_HALVES_CUH

#include "kernels/bwd_sm90_wide_step.cuh"

/* dQ and dK of a step. Each warpgroup computes one panel of dQ, then half of the middle
 * panel. */
DEVICE void multiply_ds(const consumer *c, int group, float dk[DK_MOST], unsigned base) {
    float dq[PANEL_COUNT], dq_half[HALF_COUNT];
    multiply_dq(dq, 64, base, keys_at(base, K_AT + group * 2 * KEY_PANEL_BYTES));
    wgmma_commit();
    add_panels(dk, QK_PANELS, rows_at(base, DS_AT + group * PANEL_BYTES),
               rows_at(base, Q_AT + q_ring(c, 0).place * Q_BYTES));
    wgmma_commit();
    WGMMA_WAIT(1); /* dQ */
    wgmma_results(dq, PANEL_COUNT);
    put_half(c, dq, group, 0);
    put_half(c, dq + HALF_COUNT, group, 1);
    multiply_dq(dq_half, 32, base,
                keys_at(base, K_AT + KEY_PANEL_BYTES + group * ROW_BYTES / 2));
    wgmma_commit();
    WGMMA_WAIT(1); /* dK */
    release(c, BAR_Q_EMPTY + q_ring(c, 0).place);
    publish_halves(c, group, 0, 2);
    WGMMA_WAIT(0);
    wgmma_results(dq_half, HALF_COUNT);
    named_barrier_arrive(NAMED_FREE + group, GROUPS * WARPGROUP);
    put_half(c, dq_half, group, 2);
    publish_halves(c, group, 2, 3);
}

/* Wait until the other warpgroup has read dS of the previous step, if there was one. */
DEVICE void wait_for_reader(const consumer *c, int group) {
    if (c->steps > 0)
        named_barrier_wait(NAMED_FREE + 1 - group, GROUPS * WARPGROUP);
}

/* Scores are not computed ahead: there are no registers for them. */
DEVICE void begin_steps(const consumer *c, int group, float s[S_COUNT]) {
    (void)c, (void)group, (void)s;
}

/* After the very last step: take the other warpgroup's arrival at the barrier. */
DEVICE void end_steps(const consumer *c, int group) {
    wait_for_reader(c, group);
}

/* A row block. No product is in flight when it begins or ends. A warpgroup reads only its own P
 * and waits for that. Before a warpgroup writes dS, both have read dS of the previous step:
 * each tells the other. */
DEVICE void take_step(const consumer *c, int group, int block, bool is_last, float s[S_COUNT],
                      float dk[DK_MOST], float dv[DV_MOST]) {
    float dp[DP_COUNT];
    (void)is_last;
    const unsigned base = operand_base(c);
    const int do_at = DO_AT + do_ring(c).place * DO_BYTES,
              first_key = group * GROUP_KEYS * ROW_BYTES;
    const int p_at = P_AT + group * PANEL_BYTES, ds_at = DS_AT + group * PANEL_BYTES;
    wait_full(c->shared, BAR_Q_FULL, q_ring(c, 0));
    const row_terms terms = load_terms(c);
    const int hides = hides_pairs(c, block);
    multiply_keys(s, 64, rows_at(base, Q_AT + q_ring(c, 0).place * Q_BYTES),
                  keys_at(base, K_AT + first_key), 0, QK_STEPS);
    wgmma_commit();
    wait_full(c->shared, BAR_DO_FULL, do_ring(c));
    multiply_keys(dp, 32, rows_at(base, do_at), keys_at(base, V_AT + first_key), 0, V_STEPS);
    wgmma_commit();
    WGMMA_WAIT(1); /* S */
    wgmma_results(s, S_COUNT);
    weigh_seen(c, s, group, block, hides, &terms);
    put_pairs(c, s, p_at, 0);
    put_pairs(c, s + DP_COUNT, p_at, 1);
    WGMMA_WAIT(0); /* dP */
    wgmma_results(dp, DP_COUNT);
    make_ds(dp, s, &terms, hides);
    wait_for_reader(c, group);
    put_pairs(c, dp, ds_at, 0);
    multiply_keys(dp, 32, rows_at(base, do_at),
                  keys_at(base, V_AT + first_key + 32 * ROW_BYTES), 0, V_STEPS);
    wgmma_commit();
    tma_publish();
    named_barrier_wait(NAMED_OWN + group, WARPGROUP);
    add_panels(dv, V_PANELS, rows_at(base, p_at), rows_at(base, do_at));
    wgmma_commit();
    WGMMA_WAIT(1); /* dP */
    wgmma_results(dp, DP_COUNT);
    make_ds(dp, s + DP_COUNT, &terms, hides);
    put_pairs(c, dp, ds_at, 1);
    tma_publish();
    WGMMA_WAIT(0); /* dV */
    release(c, BAR_DO_EMPTY + do_ring(c).place);
    named_barrier_wait(NAMED_DS, GROUPS * WARPGROUP);
    multiply_ds(c, group, dk, base);
}

#endif
