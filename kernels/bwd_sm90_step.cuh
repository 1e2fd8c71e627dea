/* bwd_sm90_step.cuh: the parts of a consumer warpgroup's step over one row block: five products
 * and the arithmetic between them.
 *
 * A warpgroup has 64 keys. Everything it holds is transposed, keys by rows: register 4i + e of
 * a thread is key lane / 4 + 8 (e / 2) of its warp, row 8i + 2 (lane % 4) + e % 2 of the row
 * block. P and dS, once rounded, can therefore be used directly as the left operands of dV and
 * dK. */
#ifndef ATT_BWD_SM90_STEP_CUH
#define ATT_BWD_SM90_STEP_CUH

#include "kernels/bwd_sm90_barriers.cuh"
#include "kernels/bwd_sm90_mask.cuh"
#include "kernels/bwd_sm90_work.cuh"
#include "kernels/convert.cuh"
#include "kernels/math.cuh"
#include "kernels/stmatrix_trans.cuh"
#include "kernels/tma.cuh"
#include "kernels/wgmma_both.cuh"

#define S_COUNT  (TILE_M / 2) /* registers per thread: scores, dP, dS */
#define DK_COUNT (D_QK / 2)
#define DV_COUNT (D_V / 2)
#define DQ_COUNT (DQ_COLUMNS / 2)
#define P_COUNT  (S_COUNT / 2) /* packed */

/* With 128 rows there are not enough registers for dS and P in both precisions. */
#define HAS_EARLY_DV (USE_EARLY_DV && TILE_M == 64)

/* FEATURES */
#define HAS_ALIBI   ((FEATURES & FEATURE_ALIBI) != 0)
#define HAS_SOFTCAP ((FEATURES & FEATURE_SOFTCAP) != 0)
static_assert((FEATURES & ~(FEATURE_ALIBI | FEATURE_SOFTCAP)) == 0,
              "scores are scaled, bent and sloped, no more");
static_assert(D_QK % 16 == 0 && D_V % 16 == 0, "whole steps of the tensor cores");

/* The state of one thread of a consumer warpgroup. */
typedef struct consumer {
    const att_bwd_sm90_params *p;
    unsigned shared, base; /* base: of shared memory, as a wgmma address */
    int group, warp, lane;
    ring records, keys, rows;
    int ds;                     /* slot of dS */
    int steps;                  /* steps taken, which select the slots of dQ */
    int clear_first, clear_end; /* row blocks that need no mask */
    float slope;                /* ALiBi slope of the query head, in units of log2 */
} consumer;

/* This thread's number among those of both consumer warpgroups. */
DEVICE int consumer_thread(const consumer *c) {
    return c->group * WARPGROUP + c->warp * 32 + c->lane;
}

/* Word `what` of the record of the item in progress. */
DEVICE int record_of(const consumer *c, int what) {
    return record_word(c->shared, c->records.place, what);
}

DEVICE void release(const consumer *c, int which) {
    __syncwarp();
    if (c->lane == 0)
        mbarrier_arrive(barrier_of(c->shared, which));
}

/* Hides the base from the compiler in each step, so that it does not keep descriptors from step
 * to step, for which there are no registers. */
DEVICE unsigned operand_base(consumer *c) {
    asm volatile("" : "+r"(c->base));
    return c->base;
}

DEVICE unsigned long long operand_at(unsigned base, int at, int panel) {
    return wgmma_operand(base + (at >> 4), panel);
}

/* The address of the 16 bytes `chunk` of a row of K's buffer or V's. */
DEVICE unsigned chunk_of_key(unsigned buffer, int row, int chunk) {
    return buffer + (chunk / 8 * TILE_N + row) * ROW_BYTES + ((chunk % 8 ^ (row & 7)) << 4);
}

/* Start x = A B^T, keys by rows. A is this warpgroup's keys of K or V, B a row block of Q or
 * dO. */
DEVICE void multiply_rows(float x[S_COUNT], unsigned base, int keys_at, int rows_at, int group,
                          int columns) {
    const unsigned long long a = operand_at(base, keys_at + group * GROUP_KEYS * ROW_BYTES, 16),
                             b = operand_at(base, rows_at, 16);
    wgmma_fence();
    WGMMA_FIRST(TILE_M)(x, a, b);
#pragma unroll
    for (int k = 1; k < columns / 16; k++)
        WGMMA(TILE_M)
    (x, a + WGMMA_STEP(k / 4 * TILE_N * ROW_BYTES + k % 4 * 32),
     b + WGMMA_STEP(k / 4 * TILE_M * ROW_BYTES + k % 4 * 32), 1);
    wgmma_commit();
}

/* Start dV += P^T dO, or dK += dS^T Q. */
DEVICE void add_dv(float dv[DV_COUNT], const unsigned p[P_COUNT], unsigned base, int rows_at) {
    const unsigned long long b = operand_at(base, rows_at, TILE_M * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < TILE_M / 16; k++)
        WGMMA_MN(D_V)(dv, p + 4 * k, b + WGMMA_STEP(k * 16 * ROW_BYTES), 1);
    wgmma_commit();
}

DEVICE void add_dk(float dk[DK_COUNT], const unsigned ds[P_COUNT], unsigned base, int rows_at) {
    const unsigned long long b = operand_at(base, rows_at, TILE_M * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < TILE_M / 16; k++)
        WGMMA_MN(D_QK)(dk, ds + 4 * k, b + WGMMA_STEP(k * 16 * ROW_BYTES), 1);
    wgmma_commit();
}

/* Start dQ = dS K, rows by columns: this warpgroup's columns, or its rows. */
DEVICE void multiply_dq(float dq[DQ_COUNT], unsigned base, int ds_at, int group) {
    const unsigned long long a =
        operand_at(base, ds_at + (SHARES_COLUMNS ? 0 : group * 64 * ROW_BYTES), 16);
    const unsigned long long b = operand_at(
        base, K_AT + (SHARES_COLUMNS ? group * TILE_N * ROW_BYTES : 0), TILE_N * ROW_BYTES);
    wgmma_fence();
    WGMMA_CROSS_FIRST(DQ_COLUMNS)(dq, a, b);
#pragma unroll
    for (int k = 1; k < TILE_N / 16; k++)
        WGMMA_CROSS(DQ_COLUMNS)
    (dq, a + WGMMA_STEP(k / 4 * TILE_M * ROW_BYTES + k % 4 * 32),
     b + WGMMA_STEP(k * 16 * ROW_BYTES));
    wgmma_commit();
}

/* This thread's first key of the tile, and its first row of a row block. */
DEVICE int first_key(const consumer *c) {
    return c->group * GROUP_KEYS + c->warp * 16 + c->lane / 4;
}

DEVICE int first_row(const consumer *c) {
    return c->lane % 4 * 2;
}

DEVICE int away_of(const consumer *c, int block) {
    return record_of(c, REC_TILE) * TILE_N + first_key(c) -
           (block * TILE_M + first_row(c) + record_of(c, REC_SHIFT));
}

DEVICE step_mask mask_of(const consumer *c, int block) {
    step_mask m = windows_of(&c->p->bwd.fwd);
    m.away = away_of(c, block);
    m.rows = record_of(c, REC_LEN_Q) - block * TILE_M - first_row(c);
    m.keys = record_of(c, REC_LEN_K) - record_of(c, REC_TILE) * TILE_N - first_key(c);
    return m;
}

/* Does the row block have a pair that is masked? The asm statement makes the compiler ask again
 * each time. Otherwise it would duplicate the whole step, for which there are no registers. */
DEVICE bool hides_pairs(const consumer *c, int block) {
    asm volatile("" : "+r"(block));
    return block < c->clear_first || block >= c->clear_end;
}

/* Does this thread's register i belong to a visible pair? */
DEVICE bool is_seen(const step_mask *m, int i) {
    const int row = i / 4 * 8 + i % 2, key = i / 2 % 2 * 8, away = m->away + key - row;
    return away <= m->right && away >= -m->left && row < m->rows && key < m->keys;
}

/* Set the weights of masked pairs to 0, whatever they were computed from. */
DEVICE void hide_pairs(float p[S_COUNT], const step_mask *m) {
#pragma unroll
    for (int i = 0; i < S_COUNT; i++)
        if (!is_seen(m, i))
            p[i] = 0.0f;
}

/* Log-sums or deltas of two neighbouring rows. Those of rows 8n + lane % 4 * 2 and the next are
 * 64 bytes further on per n. */
typedef struct row_pair {
    float row[2];
} row_pair;

enum { DELTAS = 4 * ATT_BWD_TERM_ROWS }; /* bytes from the log-sums to the deltas */

DEVICE row_pair load_row_pair(unsigned from) {
    row_pair x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(x.row[0]), "=f"(x.row[1])
                 : "r"(from)
                 : "memory");
    return x;
}

/* The number of pairs that are loaded before the products they are combined with: as many as
 * there are registers for. A load waits behind the products that the warp started before it.
 * Log-sums are therefore loaded ahead of S, so that weights are computed while dP is in
 * flight. */
#define LSES_AHEAD   (!USE_TERMS_AHEAD ? 0 : HAS_SOFTCAP ? 4 : 8)
#define DELTAS_AHEAD (!USE_TERMS_AHEAD ? 0 : TILE_M == 128 ? 2 : FEATURES ? 4 : 8)

DEVICE void load_ahead(row_pair *ahead, int count, unsigned from) {
#pragma unroll
    for (int n = 0; n < count; n++)
        ahead[n] = load_row_pair(from + 64 * n);
}

DEVICE row_pair pair_of(const row_pair *ahead, int count, unsigned from, int n) {
    return n < count ? ahead[n] : load_row_pair(from + 64 * n);
}

/* Turn scores into weights: 2^(scale * s - lse). */
DEVICE void weigh(float s[S_COUNT], float scale_log2, const row_pair *ahead, unsigned lses) {
#pragma unroll
    for (int n = 0; n < TILE_M / 8; n++) {
        const row_pair lse = pair_of(ahead, LSES_AHEAD, lses, n);
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[4 * n + e] = exp2_fast(fmaf(s[4 * n + e], scale_log2, -lse.row[e % 2]));
    }
}

/* tanh(x) from exp(-2|x|) = 2^(decay |product|). The cancellation near 0 is below the float32
 * precision of the score. */
DEVICE float bend(float product, float decay) {
    const float e = exp2_fast(fabsf(product) * decay);
    return copysignf((1.0f - e) * reciprocal_fast(1.0f + e), product);
}

/* weigh() for scores that features change. With a softcap, where scores are softcap * tanh, the
 * rounded weights go to `p`, and s is left with the weight times the derivative of the score
 * with respect to the product: 1 - tanh^2. */
DEVICE void weigh_shaped(float s[S_COUNT], unsigned p[P_COUNT], const consumer *c, int block,
                         const row_pair *ahead, unsigned lses) {
    const att_fwd_params *f = &c->p->bwd.fwd;
    const float decay = -2.0f * LOG2_E * f->scale_log2; /* scale_log2 is scale / softcap here */
    const float factor = HAS_SOFTCAP ? f->softcap * LOG2_E : f->scale_log2,
                away = HAS_ALIBI ? (float)away_of(c, block) : 0.0f;
#pragma unroll
    for (int n = 0; n < TILE_M / 8; n++) {
        const row_pair lse = pair_of(ahead, LSES_AHEAD, lses, n);
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
            float weight[2];
#pragma unroll
            for (int o = 0; o < 2; o++) {
                float *x = &s[4 * n + e + o];
                const float top = -lse.row[o], steps = away + (float)(e / 2 * 8 - 8 * n - o);
                const float bent = HAS_SOFTCAP ? bend(*x, decay) : *x;
                weight[o] = exp2_fast(
                    fmaf(bent, factor, HAS_ALIBI ? fmaf(-c->slope, fabsf(steps), top) : top));
                *x = HAS_SOFTCAP ? weight[o] * fmaf(-bent, bent, 1.0f) : weight[o];
            }
            if (HAS_SOFTCAP)
                p[2 * n + e / 2] = pack_16(DTYPE, weight[0], weight[1]);
        }
    }
}

/* Set the packed weights of masked pairs to 0. */
DEVICE void hide_packed(unsigned p[P_COUNT], const step_mask *m) {
#pragma unroll
    for (int i = 0; i < P_COUNT; i++)
        p[i] &= (is_seen(m, 2 * i) ? 0xffffu : 0u) | (is_seen(m, 2 * i + 1) ? 0xffff0000u : 0u);
}

/* Turn dP into dS = P (dP - delta). */
DEVICE void make_ds(float dp[S_COUNT], const float p[S_COUNT], const row_pair *ahead,
                    unsigned deltas) {
#pragma unroll
    for (int n = 0; n < TILE_M / 8; n++) {
        const row_pair delta = pair_of(ahead, DELTAS_AHEAD, deltas, n);
#pragma unroll
        for (int e = 0; e < 4; e++)
            dp[4 * n + e] = (dp[4 * n + e] - delta.row[e % 2]) * p[4 * n + e];
    }
}

/* Where P is 0, set dS to 0, whatever V holds there. */
DEVICE void hide_ds(float ds[S_COUNT], const float p[S_COUNT]) {
#pragma unroll
    for (int i = 0; i < S_COUNT; i++)
        if (p[i] == 0.0f)
            ds[i] = 0.0f;
}

DEVICE void round_pairs(unsigned to[P_COUNT], const float from[S_COUNT]) {
#pragma unroll
    for (int i = 0; i < P_COUNT; i++)
        to[i] = pack_16(DTYPE, from[2 * i], from[2 * i + 1]);
}

/* The lane, computed again from the thread number, so that addresses derived from it are not
 * kept in registers from step to step. */
DEVICE int warp_lane(void) {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return (int)thread % 32;
}

/* Write dS to a slot in shared memory, rows by keys, one panel per warpgroup. */
DEVICE void put_pairs(const consumer *c, const unsigned pairs[P_COUNT], int place) {
    const int lane = warp_lane(), row = lane / 16 * 8 + lane % 8;
    const unsigned to = c->shared + DS_AT + place * DS_BYTES + c->group * TILE_M * ROW_BYTES +
                        row * ROW_BYTES + (((2 * c->warp + lane / 8 % 2) ^ (lane & 7)) << 4);
#pragma unroll
    for (int k = 0; k < TILE_M / 16; k++)
        stmatrix_x4_trans(to + k * 16 * ROW_BYTES, pairs + 4 * k);
}

/* Tell the storer that dQ is in its slot. */
DEVICE void publish_dq(consumer *c) {
    tma_publish();
    release(c, BAR_DQ_FULL + c->steps % STORERS * GROUPS + c->group);
    c->steps++;
}

/* Write dQ to shared memory for a storer, in register order, 16 bytes per thread at a time. */
DEVICE void put_dq(consumer *c, const float dq[DQ_COUNT]) {
    const int place = c->steps % DQ_PLACES;
    const unsigned to = c->shared + DQ_AT + place * DQ_BYTES + c->group * (DQ_BYTES / GROUPS) +
                        (c->warp * 32 + c->lane) * 16;
    mbarrier_wait(barrier_of(c->shared, BAR_DQ_EMPTY + place * GROUPS + c->group),
                  (c->steps / DQ_PLACES & 1) ^ 1);
#pragma unroll
    for (int i = 0; i < DQ_COUNT / 4; i++)
        write_floats(to + i * WARPGROUP * 16, dq + 4 * i);
}

/* Keep these computations before the statements that follow. */
DEVICE void settle(float *x, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        asm volatile("" : "+f"(x[i])::"memory");
}

#endif
