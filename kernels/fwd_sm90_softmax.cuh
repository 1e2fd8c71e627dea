/* fwd_sm90_softmax.cuh: the running softmax of 64 rows that a warpgroup holds as results of wgmma.
 *
 * A thread holds two rows, 8 apart (half 0 and 1), two neighbouring columns of every 8. As in fwd_softmax.cuh, `top` follows the
 * maximum only when that grows by more than RAISE_ABOVE. */
#ifndef ATT_FWD_SM90_SOFTMAX_CUH
#define ATT_FWD_SM90_SOFTMAX_CUH

#include "kernels/convert.cuh"
#include "kernels/fwd_softmax.cuh"
#include "kernels/fwd_sm90_work.cuh"

#define IS_PLAIN (ROLE != GENERAL)
#define S_COUNT  (TILE_N / 2) /* registers a thread */
#define O_COUNT  (D_V / 2)
#define P_COUNT  (TILE_N / 4)
#define K_STEPS  ((D_QK + 15) / 16)
#define V_STEPS  (TILE_N / 16)
static_assert(D_QK % 16 == 0 && D_V % 16 == 0 && D_V <= 256, "whole steps of the tensor cores");

typedef struct softmax_state {
    float top[2], sum[2];
} softmax_state;

/* Keys that rows `row` and `row` + 8 of the unit do not see, of tile j. */
DEVICE void hide_keys(const att_fwd_sm90_params *p, const sequence *own, float s[S_COUNT], int row, int j) {
    const int key0 = j * TILE_N + (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = (row + 8 * half) >> p->pack;
        const int lo = visible_lo(&p->fwd, own, i) - key0, hi = visible_hi(&p->fwd, own, i) - key0;
#pragma unroll
        for (int n = 0; n < S_COUNT / 2; n++)
            if (n / 2 * 8 + n % 2 >= hi)
                s[n / 2 * 4 + n % 2 + 2 * half] = -INFINITE;
        if (p->fwd.window_left >= 0)
#pragma unroll
            for (int n = 0; n < S_COUNT / 2; n++)
                if (n / 2 * 8 + n % 2 < lo)
                    s[n / 2 * 4 + n % 2 + 2 * half] = -INFINITE;
    }
}

/* The maximum of this lane's scores of a row half. */
DEVICE float lane_max(const float s[S_COUNT], int half) {
    float a = s[2 * half], b = s[2 * half + 1], c = s[4 + 2 * half], d = s[5 + 2 * half];
#pragma unroll
    for (int n = 2; n < TILE_N / 8; n += 2) {
        a = fmaxf(a, s[4 * n + 2 * half]);
        b = fmaxf(b, s[4 * n + 1 + 2 * half]);
        c = fmaxf(c, s[4 * n + 4 + 2 * half]);
        d = fmaxf(d, s[4 * n + 5 + 2 * half]);
    }
    return fmaxf(fmaxf(a, b), fmaxf(c, d));
}

/* Scores of a row half become weights; returns this lane's share of their sum. */
DEVICE float weigh_half(float s[S_COUNT], int half, float factor, float top) {
    float even = 0.0f, odd = 0.0f;
#pragma unroll
    for (int n = 2 * half; n < S_COUNT; n += 4) {
        s[n] = exp2_fast(fmaf(s[n], factor, -top));
        s[n + 1] = exp2_fast(fmaf(s[n + 1], factor, -top));
        even += s[n];
        odd += s[n + 1];
    }
    return even + odd;
}

DEVICE void round_weights(unsigned p[P_COUNT], const float s[S_COUNT]) {
#pragma unroll
    for (int n = 0; n < P_COUNT; n++)
        p[n] = pack_16(DTYPE, s[2 * n], s[2 * n + 1]);
}

#endif
