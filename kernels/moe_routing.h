/* moe_routing.h: the arithmetic that decides which experts a token goes to. Read as C11, as
 * CUDA C and by NVRTC, so it includes nothing that NVRTC lacks.
 *
 * Ids must be the same on every device, and with ATT_MOE_SIGMOID they depend on a float32 sum.
 * The sigmoid is therefore defined here with additions, multiplications and a division that are
 * each rounded to nearest: no fused multiply-add, no library function. C files that include
 * this must be compiled with -ffp-contract=off. */
#ifndef ATT_MOE_ROUTING_H
#define ATT_MOE_ROUTING_H

#ifdef __CUDACC__

#define ATT_ROUTE_FUNCTION  static __device__ __forceinline__
#define ATT_ROUTE_ADD(a, b) __fadd_rn(a, b)
#define ATT_ROUTE_MUL(a, b) __fmul_rn(a, b)
#define ATT_ROUTE_DIV(a, b) __fdiv_rn(a, b)

ATT_ROUTE_FUNCTION unsigned att_route_bits(float x) {
    return __float_as_uint(x);
}

ATT_ROUTE_FUNCTION float att_route_float(unsigned bits) {
    return __uint_as_float(bits);
}

#else

#include <string.h>

#define ATT_ROUTE_FUNCTION  static inline
#define ATT_ROUTE_ADD(a, b) ((a) + (b))
#define ATT_ROUTE_MUL(a, b) ((a) * (b))
#define ATT_ROUTE_DIV(a, b) ((a) / (b))

ATT_ROUTE_FUNCTION unsigned att_route_bits(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

ATT_ROUTE_FUNCTION float att_route_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif

/* Map a score to an integer with the same order: NaN lowest, -0 equal to 0. Of equal keys, the
 * lower id comes first. */
ATT_ROUTE_FUNCTION unsigned att_route_key(float score) {
    const unsigned bits = att_route_bits(ATT_ROUTE_ADD(score, 0.0f)); /* -0 + 0 is 0 */
    if (score != score)
        return 0;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* e^x with a relative error of 1e-7: 0 below -87, infinity above 87, NaN for NaN. Neither it
 * nor a sigmoid is ever subnormal.
 *
 * x = n ln2 + r with |r| <= ln2 / 2. n is rounded by adding and subtracting `shift`; n ln2 is
 * subtracted in two parts, so that the product with the first is exact. */
ATT_ROUTE_FUNCTION float att_route_exp(float x) {
    const float shift = 12582912.0f; /* 1.5 * 2^23 */
    if (x < -87.0f)
        return 0.0f;
    if (!(x <= 87.0f))
        return ATT_ROUTE_ADD(x, att_route_float(0x7f800000u));
    const float shifted = ATT_ROUTE_ADD(ATT_ROUTE_MUL(x, 1.44269504f), shift);
    const float n = ATT_ROUTE_ADD(shifted, -shift);
    float r = ATT_ROUTE_ADD(x, ATT_ROUTE_MUL(n, -0.693359375f));
    r = ATT_ROUTE_ADD(r, ATT_ROUTE_MUL(n, 2.12194440e-4f));
    float p = ATT_ROUTE_ADD(ATT_ROUTE_MUL(1.9875691500e-4f, r), 1.3981999507e-3f);
    p = ATT_ROUTE_ADD(ATT_ROUTE_MUL(p, r), 8.3334519073e-3f);
    p = ATT_ROUTE_ADD(ATT_ROUTE_MUL(p, r), 4.1665795894e-2f);
    p = ATT_ROUTE_ADD(ATT_ROUTE_MUL(p, r), 1.6666665459e-1f);
    p = ATT_ROUTE_ADD(ATT_ROUTE_MUL(p, r), 5.0000001201e-1f);
    p = ATT_ROUTE_ADD(ATT_ROUTE_ADD(ATT_ROUTE_MUL(ATT_ROUTE_MUL(p, r), r), r), 1.0f);
    return ATT_ROUTE_MUL(p, att_route_float((att_route_bits(shifted) << 23) + 0x3f800000u));
}

ATT_ROUTE_FUNCTION float att_route_sigmoid(float x) {
    return ATT_ROUTE_DIV(1.0f, ATT_ROUTE_ADD(1.0f, att_route_exp(-x)));
}

/* The weight of a logit in a softmax whose largest logit is `top`, before division by the
 * sum. */
ATT_ROUTE_FUNCTION float att_route_weight(float logit, float top) {
    return logit == top ? 1.0f : att_route_exp(ATT_ROUTE_ADD(logit, -top));
}

#endif
