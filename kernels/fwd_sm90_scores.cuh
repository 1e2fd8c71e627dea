/* fwd_sm90_scores.cuh: rows with FEATURES: turns the products of a tile of keys into scores in
 * units of log2.
 *
 * A thread holds two rows, 8 apart (half 0 and 1), two neighbouring columns of every 8, as in
 * fwd_sm90_softmax.cuh. If all keys of a tile are visible, its tops are known and the cheap
 * form of every feature applies, products become weights in one step: ALiBi is one more
 * multiply-add per score, softcap a polynomial whose last step also subtracts the top.
 * Otherwise products first become scores, in place (shape_scores), and are then masked,
 * searched for maxima and weighed like those of any other row. */
#ifndef ATT_FWD_SM90_SCORES_CUH
#define ATT_FWD_SM90_SCORES_CUH

#include "kernels/fwd_sm90_bias.cuh"
#include "kernels/fwd_sm90_registers.cuh"
#include "kernels/math.cuh"

/* The features' parameters for one tile of keys. */
typedef struct score_shape {
    float factor; /* for a product: scale * log2(e) */
    /* ALiBi: the slope in units of log2, and the distance of this thread's first column to the
     * right of the diagonal of its first row. */
    float slope, away;
    int side;    /* keys relative to the warp's diagonals: 1 left or on, -1 right, 0 both */
    bool climbs; /* the walk still approaches the diagonal: tops will rise */
    bool ghosts; /* the warp has rows past the last, whose values are arbitrary */
    const att_fwd_softcap *cap;
    unsigned bias, swizzle; /* bias_lane() */
} score_shape;

/* Column n of a half, relative to the thread's first. */
#define COLUMN(n) ((n) / 4 * 8 + (n) % 2)

/* ---------------------------------------------------------------------------------- softcap */

/* Turn a product into a score, plus `add`, with the short polynomial. */
DEVICE float capped_near(const att_fwd_softcap *cap, float product, float add) {
    const float square = product * product;
    float y = cap->near[ATT_SOFTCAP_NEAR];
#pragma unroll
    for (int k = ATT_SOFTCAP_NEAR - 1; k >= 0; k--)
        y = fmaf(y, square, cap->near[k]);
    return fmaf(product, y, add);
}

/* The same with the long polynomial. */
DEVICE float capped_far(const att_fwd_softcap *cap, float product) {
    const float square = product * product;
    float y = cap->far[ATT_SOFTCAP_FAR];
#pragma unroll
    for (int k = ATT_SOFTCAP_FAR - 1; k >= 0; k--)
        y = fmaf(y, square, cap->far[k]);
    return product * y;
}

/* The same beyond both. 1 - 2e / (1 + e) is tanh for e = exp(-2|x|). */
DEVICE float capped_beyond(const att_fwd_softcap *cap, float product) {
    const float e = exp2_fast(fabsf(product) * cap->decay);
    return copysignf(cap->most * fmaf(-2.0f * e, reciprocal_fast(1.0f + e), 1.0f), product);
}

/* The largest magnitude of this lane's products. NaN is ignored: it stays NaN under any
 * polynomial. */
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

/* With the long polynomial, or beyond it, in groups of eight. The vote keeps the compiler from
 * computing all of them at once, for which there are no registers. */
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

/* ---------------------------------------------------------------------------- all features */

/* May the products of a fully visible tile become weights in one step? */
DEVICE bool weighs_at_once(const score_shape *f, const float s[S_COUNT]) {
    if (HAS_ALIBI && HAS_BIAS)
        return false;
    return !HAS_SOFTCAP || __all_sync(0xffffffffu, largest_product(s) <= f->cap->near_reach);
}

/* A product as a score plus `add`, in that case. */
DEVICE float score_at_once(const score_shape *f, float product, float add) {
    return HAS_SOFTCAP ? capped_near(f->cap, product, add) : fmaf(product, f->factor, add);
}

/* Turn products of a row half into weights. Returns this lane's share of their sum. */
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

/* The same for both halves, with a bias. */
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

/* Turn products into weights relative to `top`; `more` gets this lane's shares of their
 * sums. */
DEVICE void weigh_at_once(float s[S_COUNT], const float top[2], float more[2], const score_shape *f) {
    if (HAS_BIAS) {
        weigh_biased(s, top, more, f);
        return;
    }
    more[0] = weigh_products(s, 0, top[0], f);
    more[1] = weigh_products(s, 1, top[1], f);
}

/* Turn products into scores, in any tile. */
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
