/* convert.cuh: conversions between float32 and the 16-bit types. */
#ifndef ATT_CONVERT_CUH
#define ATT_CONVERT_CUH

#include "kernels/config.cuh"

/* Two floats, rounded to nearest even, in one register: lo in the low half. `type` is a
 * constant: F16 or BF16. */
DEVICE unsigned pack_16(int type, float lo, float hi) {
    unsigned packed;
    if (type == BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
    return packed;
}

DEVICE float f16_to_float(half_bits x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

DEVICE float bf16_to_float(half_bits x) {
    return __uint_as_float((unsigned)x << 16);
}

/* Element i of an array of `type`, any of F32, F16, BF16. */
DEVICE float load_as_float(const void *base, long long i, int type) {
    if (type == F32)
        return ((const float *)base)[i];
    const half_bits x = ((const half_bits *)base)[i];
    return type == BF16 ? bf16_to_float(x) : f16_to_float(x);
}

DEVICE void store_from_float(void *base, long long i, int type, float x) {
    if (type == F32)
        ((float *)base)[i] = x;
    else
        ((half_bits *)base)[i] = (half_bits)(pack_16(type, x, 0.0f) & 0xffffu);
}

#endif
