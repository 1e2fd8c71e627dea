/* math_body.h: vector exp2 and tanh over the vf of the including file.
 *
 * 2^x = 2^floor(x) * p(x - floor(x)), p(0) = 1 exactly. The coefficients are relative minimax
 * fits on [0, 1):
 *   degree 3  8.6e-5   enough if the result is rounded to bfloat16
 *   degree 4  2.9e-6   enough for float16
 *   degree 5  8.2e-8   float32 */
#ifndef ATT_CPU_MATH_BODY_H
#define ATT_CPU_MATH_BODY_H

#define LOG2E     0x1.715476p+0f
#define VF_INLINE static inline __attribute__((always_inline))

VF_INLINE vf vf_exp2(vf x, const int degree) {
    const vf f = vf_fraction(x);
    vf p;
    if (degree == 3) {
        p = vf_muladd(vf_set1(0x1.3baaaap-4f), f, vf_set1(0x1.d23788p-3f));
        p = vf_muladd(p, f, vf_set1(0x1.63e65ap-1f));
    } else if (degree == 4) {
        p = vf_muladd(vf_set1(0x1.b7f734p-7f), f, vf_set1(0x1.abf868p-5f));
        p = vf_muladd(p, f, vf_set1(0x1.ee2452p-3f));
        p = vf_muladd(p, f, vf_set1(0x1.62d6c6p-1f));
    } else {
        p = vf_muladd(vf_set1(0x1.e974fcp-10f), f, vf_set1(0x1.277854p-7f));
        p = vf_muladd(p, f, vf_set1(0x1.c91ce6p-5f));
        p = vf_muladd(p, f, vf_set1(0x1.ebdb56p-3f));
        p = vf_muladd(p, f, vf_set1(0x1.62e4bap-1f));
    }
    return vf_scale_pow2(vf_muladd(p, f, vf_set1(1.0f)), x);
}

/* tanh computed with expm1, so that small arguments keep their relative accuracy: e =
 * expm1(2|x|) = 2^n * q(f) + (2^n - 1) with 2|x| = n ln2 + f, and tanh|x| = e / (e + 2). */
VF_INLINE vf vf_tanh(vf x) {
    const vf two_x =
        vf_min(vf_set1(20.0f), vf_mul(vf_set1(2.0f), vf_abs(x))); /* tanh(10) is 1 */
    const vf n = vf_round(vf_mul(two_x, vf_set1(0x1.715476p+0f)));
    vf f = vf_fma(n, vf_set1(-0x1.62e4p-1f), two_x);
    f = vf_fma(n, vf_set1(-0x1.7f7d1cp-20f), f);
    vf q = vf_fma(vf_set1(0x1.6bec06p-10f), f, vf_set1(0x1.122776p-7f));
    q = vf_fma(q, f, vf_set1(0x1.555674p-5f));
    q = vf_fma(q, f, vf_set1(0x1.5554b0p-3f));
    q = vf_fma(q, f, vf_set1(0x1.fffffep-2f));
    q = vf_fma(vf_mul(q, f), f, f);
    const vf pow2 = vf_scale_pow2(vf_set1(1.0f), n);
    const vf e = vf_fma(pow2, q, vf_sub(pow2, vf_set1(1.0f)));
    const vf t = vf_div(e, vf_add(e, vf_set1(2.0f)));
    return vf_copysign(t, x);
}

#endif
