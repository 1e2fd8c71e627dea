/* math.cuh: the few transcendental functions of attention, as single hardware instructions. */
#ifndef ATT_MATH_CUH
#define ATT_MATH_CUH

#include "kernels/config.cuh"

#define LOG2_E   1.44269504088896341f
#define LN_2     0.693147180559945309f
#define INFINITE __int_as_float(0x7f800000)

/* 2^x; 2 ulp, 0 for -inf. */
DEVICE float exp2_fast(float x) {
    if (!USE_FAST_EXP2)
        return exp2f(x);
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1/x; 1 ulp. */
DEVICE float reciprocal_fast(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log2(x) for x >= 0; -inf for 0. */
DEVICE float log2_fast(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
