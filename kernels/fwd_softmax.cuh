/* fwd_softmax.cuh: the running softmax of the rows that a warp holds as mma results.
 *
 * A lane holds two rows of every 16-row tile, two neighbouring columns of every 8. `top` is the reference that scores
 * are taken against, in units of log2; it follows the maximum only when that grows by more than RAISE_ABOVE, so that
 * sums and O are almost never rescaled. Weights then reach 2^RAISE_ABOVE at most, far from the end of float16.
 *
 * Where O is written in float32 it is followed always: the heaviest key then weighs exactly 1, and rounding the
 * weights to 16 bits costs a row that one key dominates nothing. */
#ifndef ATT_FWD_SOFTMAX_CUH
#define ATT_FWD_SOFTMAX_CUH

#include "kernels/math.cuh"
#include "kernels/reduce.cuh"

#define RAISE_ABOVE 8.0f

/* `n` results (columns of 8) of one row half become weights; *sum grows by this lane's. `half` is 0 or 1. */
DEVICE void weigh(float s[][4], int n, int half, float factor, float top, float *sum) {
    const float base = top == -INFINITE ? 0.0f : top;
    float even = 0.0f, odd = 0.0f;
#pragma unroll
    for (int t = 0; t < n; t++) {
        s[t][2 * half] = exp2_fast(fmaf(s[t][2 * half], factor, -base));
        s[t][2 * half + 1] = exp2_fast(fmaf(s[t][2 * half + 1], factor, -base));
        even += s[t][2 * half];
        odd += s[t][2 * half + 1];
    }
    *sum += even + odd;
}

/* The maximum of one row half over all its lanes, in units of log2. */
DEVICE float row_max(float s[][4], int n, int half, float factor) {
    float a = s[0][2 * half], b = s[0][2 * half + 1];
#pragma unroll
    for (int t = 1; t < n; t++) {
        a = fmaxf(a, s[t][2 * half]);
        b = fmaxf(b, s[t][2 * half + 1]);
    }
    return quad_max(fmaxf(a, b)) * factor;
}

#endif
