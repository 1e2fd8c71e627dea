/* fwd_sm90_scores.cuh: rows with FEATURES: what makes scores, in units of log2, of the products of a tile of keys.
 *
 * A thread holds two rows, 8 apart (half 0 and 1), two neighbouring columns of every 8, as in fwd_sm90_softmax.cuh. Where a tile is seen
 * whole, its tops are known and the cheap form of every feature holds, products become weights at once: ALiBi is one more
 * multiply-add of a score, softcap a polynomial whose last step is the one that subtracts the top. Anywhere else products become
 * scores first, in place (shape_scores), and are then hidden, searched for maxima and weighed like those of any other row. */
#ifndef ATT_FWD_SM90_SCORES_CUH
#define ATT_FWD_SM90_SCORES_CUH

#include "kernels/fwd_sm90_bias.cuh"
#include "kernels/fwd_sm90_registers.cuh"
#include "kernels/math.cuh"

/* What a tile of keys has of the features. */
typedef struct score_shape {
    float factor; /* of a product: scale * log2(e) */
    /* ALiBi: the slope in units of log2, and how far this thread's first column lies right of the diagonal of its first row. */
    float slope, away;
    int side;    /* 1: all keys lie left of the diagonals of the warp's rows, or on them; -1: right of them; 0: both */
    bool climbs; /* the walk over the keys still comes closer to the diagonal: tops will rise */
    const att_fwd_softcap *cap;
    unsigned bias, swizzle; /* bias_lane() */
} score_shape;

/* Column n of a half, from the thread's first. */
#define COLUMN(n) ((n) / 4 * 8 + (n) % 2)

/* ---------------------------------------------------------------------------------- softcap */

/* A product as a score, plus `add`, by the short polynomial. */
DEVICE float capped_near(const att_fwd_softcap *cap, float product, float add) {
    const float square = product * product;
    float y = cap->near[ATT_SOFTCAP_NEAR];
#pragma unroll
    for (int k = ATT_SOFTCAP_NEAR - 1; k >= 0; k--)
        y = fmaf(y, square, cap->near[k]);
    return fmaf(product, y, add);
}

/* By the long one. */
DEVICE float capped_far(const att_fwd_softcap *cap, float product) {
    const float square = product * product;
    float y = cap->far[ATT_SOFTCAP_FAR];
#pragma unroll
    for (int k = ATT_SOFTCAP_FAR - 1; k >= 0; k--)
        y = fmaf(y, square, cap->far[k]);
    return product * y;
}

/* Beyond both. 1 - 2e / (1 + e) is tanh where e = exp(-2|x|). */
DEVICE float capped_beyond(const att_fwd_softcap *cap, float product) {
    const float e = exp2_fast(fabsf(product) * cap->decay);
    return copysignf(cap->most * fmaf(-2.0f * e, reciprocal_fast(1.0f + e), 1.0f), product);
}

/* The largest of this lane's products. NaN is left out: it stays NaN by any polynomial. */
DEVICE float largest_product(const float s[S_COUNT]) {
    float a = fabsf(s[0]), b = fabsf(s[1]), c = fabsf(s[2]), d = fabsf(s[3]);
#pragma unroll
    for (int n = 4; n < S_COUNT; n += 4) {
        a = fmaxf(a, fabsf(s[n]));
        b = fmaxf(b, fabsf(s[n + 1]));
        c = fmaxf(c, fabsf(s[n + 2]));
        d = fmaxf(d, fabsf(s[n + 3]));
    }
    return fmaxf(fmaxf(a, b), fmaxf(c, d));
}

/* By the long polynomial, or beyond it, in parts of eight: a vote keeps the compiler from having all of them under way at once, for which it has no registers. */
DEVICE void cap_scores(const att_fwd_softcap *cap, float s[S_COUNT]) {
#pragma unroll
    for (int n = 0; n < S_COUNT; n += 8) {
        float most = 0.0f;
#pragma unroll
        for (int e = 0; e < 8; e++)
            most = fmaxf(most, fabsf(s[n + e]));
        const bool reaches = __all_sync(0xffffffffu, most <= cap->far_reach);
#pragma unroll
        for (int e = 0; e < 8; e++)
            s[n + e] = reaches || fabsf(s[n + e]) <= cap->far_reach ? capped_far(cap, s[n + e]) : capped_beyond(cap, s[n + e]);
    }
}

/* ------------------------------------------------------------------------------ all features */

/* May products of a tile that is seen whole become weights at once? */
DEVICE bool weighs_at_once(const score_shape *f, const float s[S_COUNT]) {
    if (HAS_ALIBI && HAS_BIAS)
        return false;
    return !HAS_SOFTCAP || __all_sync(0xffffffffu, largest_product(s) <= f->cap->near_reach);
}

/* A product as a score plus `add`, where that is so. */
DEVICE float score_at_once(const score_shape *f, float product, float add) {
    return HAS_SOFTCAP ? capped_near(f->cap, product, add) : fmaf(product, f->factor, add);
}

/* Products of a row half become weights; returns this lane's share of their sum. */
DEVICE float weigh_products(float s[S_COUNT], int half, float top, const score_shape *f) {
    const float slope = f->side < 0 ? -f->slope : f->slope;
    const float base = HAS_ALIBI ? fmaf(slope, f->away - 8.0f * half, -top) : -top;
    float even = 0.0f, odd = 0.0f;
#pragma unroll
    for (int n = 2 * half; n < S_COUNT; n += 4)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float add = HAS_ALIBI ? fmaf(slope, (float)COLUMN(n + e), base) : base;
            s[n + e] = exp2_fast(score_at_once(f, s[n + e], add));
            if (e == 0)
                even += s[n];
            else
                odd += s[n + 1];
        }
    return even + odd;
}

/* The same of both halves, with a bias. */
DEVICE void weigh_biased(float s[S_COUNT], const float top[2], float more[2], const score_shape *f) {
    float even[2] = {0.0f, 0.0f}, odd[2] = {0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < TILE_N / 16; k++) {
        float b[8];
        bias_16(b, f->bias, f->swizzle, k);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const float add = fmaf(b[e], LOG2_E, -top[e / 2 % 2]);
            s[8 * k + e] = exp2_fast(score_at_once(f, s[8 * k + e], add));
            if (e % 2)
                odd[e / 2 % 2] += s[8 * k + e];
            else
                even[e / 2 % 2] += s[8 * k + e];
        }
    }
    more[0] = even[0] + odd[0];
    more[1] = even[1] + odd[1];
}

/* Products become weights against `top`; this lane's shares of their sums in `more`. */
DEVICE void weigh_at_once(float s[S_COUNT], const float top[2], float more[2], const score_shape *f) {
    if (HAS_BIAS) {
        weigh_biased(s, top, more, f);
        return;
    }
    more[0] = weigh_products(s, 0, top[0], f);
    more[1] = weigh_products(s, 1, top[1], f);
}

/* Products become scores, wherever they lie. */
DEVICE void shape_scores(float s[S_COUNT], const score_shape *f) {
    if (HAS_SOFTCAP)
        cap_scores(f->cap, s);
    const float factor = HAS_SOFTCAP ? 1.0f : f->factor;
    if (HAS_BIAS) {
#pragma unroll
        for (int k = 0; k < TILE_N / 16; k++) {
            float b[8];
            bias_16(b, f->bias, f->swizzle, k);
#pragma unroll
            for (int e = 0; e < 8; e++)
                s[8 * k + e] = fmaf(s[8 * k + e], factor, b[e] * LOG2_E);
        }
    }
    if (HAS_ALIBI) {
#pragma unroll
        for (int n = 0; n < S_COUNT; n++) {
            const float away = f->away - 8.0f * (n / 2 % 2) + (float)COLUMN(n);
            s[n] = fmaf(s[n], HAS_BIAS ? 1.0f : factor, -f->slope * fabsf(away));
        }
    }
}

#endif
