/* fwd_softmax.cuh: the running softmax of the rows that a warp holds as mma results.
 *
 * A lane holds two rows of every 16-row tile, two neighbouring columns of every 8. `top` is the
 * reference for scores, in units of log2. It follows the maximum only when that grows by more
 * than RAISE_ABOVE, so sums and O are almost never rescaled. Weights are then at most
 * 2^RAISE_ABOVE, far below the float16 maximum.
 *
 * If O is written in float32, `top` always follows the maximum: the heaviest key then weighs
 * exactly 1, and rounding the weights to 16 bits costs nothing in a row dominated by one
 * key. */
#ifndef ATT_FWD_SOFTMAX_CUH
#define ATT_FWD_SOFTMAX_CUH

#include "kernels/math.cuh"
#include "kernels/reduce.cuh"

#define RAISE_ABOVE 8.0f

/* Turn `n` results (columns of 8) of one row half into weights; adds this lane's to *sum.
 * `half` is 0 or 1. */
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
