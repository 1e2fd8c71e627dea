/* packed.cuh: arithmetic on two 16-bit elements in one register. */
#ifndef ATT_PACKED_CUH
#define ATT_PACKED_CUH

#include "kernels/config.cuh"

/* x * 0 + y: NaN if x is infinite or NaN. `type` is a constant: F16 or BF16. */
DEVICE unsigned times_zero_plus(int type, unsigned x, unsigned y) {
    unsigned z;
    if (type == BF16)
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(0), "r"(y));
    else
        asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(0), "r"(y));
    return z;
}

#endif
