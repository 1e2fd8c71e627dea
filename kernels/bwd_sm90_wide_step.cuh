/* bwd_sm90_wide_step.cuh: the parts of a consumer warpgroup's step over one row block that do
 * not depend on how the warpgroups divide the work.
 *
 * A warpgroup has the scores of all 64 rows and GROUP_KEYS keys: register 4i + e of a thread is
 * row lane / 4 + 8 (e / 2) of its warp's 16, key 8i + 2 (lane % 4) + e % 2 of the warpgroup's.
 * P and dS go through shared memory, rows by keys. There they are the left operand of dQ as
 * stored, and the left operands of dV and dK when transposed. Wherever `group` is a parameter,
 * it is a compile-time constant. */
#ifndef ATT_BWD_SM90_WIDE_STEP_CUH
#define ATT_BWD_SM90_WIDE_STEP_CUH

#include "kernels/bwd_sm90_barriers.cuh"
#include "kernels/bwd_sm90_mask.cuh"
#include "kernels/bwd_sm90_work.cuh"
#include "kernels/convert.cuh"
#include "kernels/math.cuh"
#include "kernels/speaking_lane.cuh"
#include "kernels/stmatrix.cuh"
#include "kernels/tma.cuh"
#include "kernels/wgmma_both.cuh"
#include "kernels/wgmma_trans.cuh"

#define S_COUNT     (GROUP_KEYS / 2) /* registers per thread: scores */
#define DP_COUNT    16               /* dP, dS: for 32 keys at a time */
#define QK_STEPS    (D_QK / 16)      /* of a sum over columns */
#define V_STEPS     (D_V / 16)
#define PANEL_COUNT 32                /* per panel of dK, dV or dQ */
#define HALF_COUNT  (PANEL_COUNT / 2) /* per slot of dQ */

/* Registers of dK, dV and dQ per warpgroup, and the maximum. */
#define DK_COUNT(group) (PANEL_COUNT * (SHARES_KEYS ? QK_PANELS : DK_SHARE(group)))
#define DV_COUNT(group) (PANEL_COUNT * (SHARES_KEYS ? V_PANELS : DV_SHARE(group)))
#define DQ_COUNT(group) (HALF_COUNT * DQ_HALVES_OF(group))
#define DK_MOST         (PANEL_COUNT * (SHARES_KEYS ? QK_PANELS : 2))
#define DV_MOST         (PANEL_COUNT * 2)
#define DQ_MOST         (HALF_COUNT * DQ_HALVES_MOST)

static_assert(D_QK % 16 == 0 && D_V % 16 == 0, "whole steps of the tensor cores");
static_assert(FEATURES == 0, "scores are scaled, no more");

/* The state of one thread of a consumer warpgroup, in as few registers as possible: slots of
 * rings follow from the counts of steps and items. */
typedef struct consumer {
    const att_bwd_sm90_params *p;
    unsigned shared;
    int steps, items;
} consumer;

/* The thread's number in its warpgroup, computed again each time, so that addresses derived
 * from it are not kept in registers from step to step. */
DEVICE int warpgroup_thread(void) {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return (int)thread % WARPGROUP;
}

/* Word `what` of the record of the item in progress. */
DEVICE int record_of(const consumer *c, int what) {
    return record_word(c->shared, c->items % RECORDS, what);
}

/* The slot of Q for this step, or for the step that is `ahead` of it. */
DEVICE ring q_ring(const consumer *c, int ahead) {
    return {(c->steps + ahead) % STAGES, (c->steps + ahead) / STAGES & 1};
}

DEVICE ring do_ring(const consumer *c) {
    return {c->steps % DO_STAGES, c->steps / DO_STAGES & 1};
}

/* The slot of half `half` of a step's dQ. */
DEVICE ring dq_ring(const consumer *c, int group, int half) {
    const unsigned use = (unsigned)c->steps * DQ_HALVES_OF(group) + half;
    return {(int)(use % DQ_PLACES), (int)(use / DQ_PLACES & 1)};
}

DEVICE void release(const consumer *c, int which) {
    __syncwarp();
    if (does_speak())
        mbarrier_arrive(barrier_of(c->shared, which));
}

/* The wgmma address of shared memory, hidden from the compiler in each step so that it does not
 * keep descriptors from step to step, for which there are no registers. */
DEVICE unsigned operand_base(const consumer *c) {
    unsigned base = wgmma_address(c->shared);
    asm volatile("" : "+r"(base));
    return base;
}

/* Descriptors for rows of Q, dO, P or dS, and for keys of K or V. They differ in the distance
 * between panels. */
DEVICE unsigned long long rows_at(unsigned base, int at) {
    return wgmma_operand(base + (at >> 4), PANEL_BYTES);
}

DEVICE unsigned long long keys_at(unsigned base, int at) {
    return wgmma_operand(base + (at >> 4), KEY_PANEL_BYTES);
}

/* The address of the 16 bytes `chunk` of a row of K's buffer or V's. */
DEVICE unsigned chunk_of_key(unsigned buffer, int row, int chunk) {
    return buffer + chunk / 8 * KEY_PANEL_BYTES + row * ROW_BYTES +
           ((chunk % 8 ^ (row & 7)) << 4);
}

/* Start x = A B^T, rows by keys: A is a row block of Q or dO, B keys of K or V. Only steps
 * [begin, end) of the sum, 16 columns each. */
DEVICE void multiply_keys(float *x, int keys, unsigned long long a, unsigned long long b,
                          int begin, int end) {
    wgmma_fence();
#pragma unroll
    for (int k = begin; k < end; k++) {
        const unsigned long long ak = a + WGMMA_STEP(k / 4 * PANEL_BYTES + k % 4 * 32),
                                 bk = b + WGMMA_STEP(k / 4 * KEY_PANEL_BYTES + k % 4 * 32);
        if (keys == 64 && k == 0)
            wgmma_first_64(x, ak, bk);
        else if (keys == 64)
            wgmma_64(x, ak, bk, 1);
        else if (k == 0)
            wgmma_first_32(x, ak, bk);
        else
            wgmma_32(x, ak, bk, 1);
    }
}

/* Start x += A^T B, 64 keys by columns: A is a panel of P or dS, B panels of dO or Q. */
DEVICE void add_panels(float *x, int panels, unsigned long long a, unsigned long long b) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < TILE_M / 16; k++) {
        const unsigned long long step = WGMMA_STEP(k * 16 * ROW_BYTES);
        if (panels == 3)
            wgmma_trans_192(x, a + step, b + step);
        else if (panels == 2)
            wgmma_trans_128(x, a + step, b + step);
        else
            wgmma_trans_64(x, a + step, b + step);
    }
}

/* Start dQ = dS K, rows by `columns` columns of K from `b` on. */
DEVICE void multiply_dq(float *dq, int columns, unsigned base, unsigned long long b) {
    const unsigned long long a = rows_at(base, DS_AT);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < TILE_N / 16; k++) {
        const unsigned long long ak = a + WGMMA_STEP(k / 4 * PANEL_BYTES + k % 4 * 32),
                                 bk = b + WGMMA_STEP(k * 16 * ROW_BYTES);
        if (columns == 128)
            k == 0 ? wgmma_cross_first_128(dq, ak, bk) : wgmma_cross_128(dq, ak, bk);
        else if (columns == 96)
            k == 0 ? wgmma_cross_first_96(dq, ak, bk) : wgmma_cross_96(dq, ak, bk);
        else if (columns == 64)
            k == 0 ? wgmma_cross_first_64(dq, ak, bk) : wgmma_cross_64(dq, ak, bk);
        else
            k == 0 ? wgmma_cross_first_32(dq, ak, bk) : wgmma_cross_32(dq, ak, bk);
    }
}

DEVICE step_mask mask_of(const consumer *c, int group, int block) {
    const int thread = warpgroup_thread();
    const int row = block * TILE_M + thread / 32 * 16 + thread % 32 / 4,
              key = record_of(c, REC_TILE) * TILE_N + group * GROUP_KEYS + thread % 4 * 2;
    step_mask m = windows_of(&c->p->bwd.fwd);
    m.away = key - row - record_of(c, REC_SHIFT);
    m.rows = record_of(c, REC_LEN_Q) - row;
    m.keys = record_of(c, REC_LEN_K) - key;
    return m;
}

/* Does the row block have a pair that is masked? Call this before starting products: the loads
 * would wait behind them. */
DEVICE int hides_pairs(const consumer *c, int block) {
    return block < record_of(c, REC_CLEAR_FIRST) || block >= record_of(c, REC_CLEAR_END);
}

/* Makes the compiler test the answer again each time. Otherwise it would duplicate the whole
 * step. */
DEVICE bool retest(int answer) {
    asm volatile("" : "+r"(answer));
    return answer;
}

/* Set the weights of masked pairs to 0, whatever they were computed from. */
DEVICE void hide_pairs(float p[S_COUNT], const step_mask *m) {
#pragma unroll
    for (int i = 0; i < S_COUNT; i++) {
        const int row = i % 4 / 2 * 8, key = i / 4 * 8 + i % 2, away = m->away + key - row;
        if (away > m->right || -away > m->left || row >= m->rows || key >= m->keys)
            p[i] = 0.0f;
    }
}

/* Log-sums and deltas of a thread's two rows. */
typedef struct row_terms {
    float lse[2], delta[2];
} row_terms;

DEVICE row_terms load_terms(const consumer *c) {
    enum { EIGHT = ATT_BWD_TERMS * ATT_BWD_TERM_ROWS * 4, DELTAS = ATT_BWD_TERM_ROWS * 4 };
    const int thread = warpgroup_thread();
    const unsigned from = c->shared + ROWS_AT + q_ring(c, 0).place * ROWS_BYTES +
                          thread / 32 * 2 * EIGHT + thread % 32 / 4 * 4;
    return {{shared_float(from), shared_float(from + EIGHT)},
            {shared_float(from + DELTAS), shared_float(from + EIGHT + DELTAS)}};
}

/* Turn scores into weights: 2^(scale * s - lse). */
DEVICE void weigh(float s[S_COUNT], float scale_log2, const row_terms *t) {
#pragma unroll
    for (int i = 0; i < S_COUNT; i++)
        s[i] = exp2_fast(fmaf(s[i], scale_log2, -t->lse[i % 4 / 2]));
}

/* The weights of a row block; those of masked pairs are 0. */
DEVICE void weigh_seen(const consumer *c, float s[S_COUNT], int group, int block, int hides,
                       const row_terms *t) {
    weigh(s, c->p->bwd.fwd.scale_log2, t);
    if (retest(hides)) {
        const step_mask m = mask_of(c, group, block);
        hide_pairs(s, &m);
    }
}

/* Turn dP into dS = P (dP - delta). With masked pairs, dS is 0 where P is, whatever V holds
 * there. */
DEVICE void make_ds(float dp[DP_COUNT], const float p[DP_COUNT], const row_terms *t,
                    int hides) {
#pragma unroll
    for (int i = 0; i < DP_COUNT; i++)
        dp[i] = (dp[i] - t->delta[i % 4 / 2]) * p[i];
    if (retest(hides))
#pragma unroll
        for (int i = 0; i < DP_COUNT; i++)
            if (p[i] == 0.0f)
                dp[i] = 0.0f;
}

/* Round P or dS of 32 keys and write it to the panel at `at` in shared memory, rows by keys: to
 * its first half or its second. */
DEVICE void put_pairs(const consumer *c, const float x[DP_COUNT], int at, int half) {
    const int thread = warpgroup_thread(), row = thread / 32 * 16 + thread % 16;
    const unsigned to = c->shared + at + row * ROW_BYTES;
#pragma unroll
    for (int n = 0; n < DP_COUNT / 8; n++) {
        unsigned r[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            r[e] = pack_16(DTYPE, x[8 * n + 2 * e], x[8 * n + 2 * e + 1]);
        stmatrix_x4(to + (((4 * half + 2 * n + thread / 16 % 2) ^ (thread & 7)) << 4), r);
    }
}

/* Write half a panel of dQ to its slot in shared memory for a storer, in register order, 16
 * bytes per thread at a time. */
DEVICE void put_half(const consumer *c, const float dq[HALF_COUNT], int group, int half) {
    const ring at = dq_ring(c, group, half);
    const unsigned to = dq_place(c->shared, group, at.place) + warpgroup_thread() * 16;
    mbarrier_wait(barrier_of(c->shared, dq_empty(group) + at.place), at.parity ^ 1);
#pragma unroll
    for (int i = 0; i < HALF_COUNT / 4; i++)
        write_floats(to + i * WARPGROUP * 16, dq + 4 * i);
}

/* Tell the storer that halves [begin, end) are in their slots: one fence for all of them. */
DEVICE void publish_halves(const consumer *c, int group, int begin, int end) {
    tma_publish();
#pragma unroll
    for (int half = begin; half < end; half++)
        release(c, dq_full(group) + dq_ring(c, group, half).place);
}

#endif
