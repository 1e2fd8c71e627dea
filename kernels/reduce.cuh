/* reduce.cuh: maxima and sums over the lanes of a warp; every lane gets the result. */
#ifndef ATT_REDUCE_CUH
#define ATT_REDUCE_CUH

#include "kernels/config.cuh"

/* Over the four lanes that share a row of an mma result. */
DEVICE float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

DEVICE float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Over the whole warp. */
DEVICE float warp_max(float x) {
    for (int lane = 16; lane > 0; lane /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
    return x;
}

DEVICE float warp_sum(float x) {
    for (int lane = 16; lane > 0; lane /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}

#endif
