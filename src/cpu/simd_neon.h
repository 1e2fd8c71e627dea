/* simd_neon.h: the engine's vector of floats on NEON (ASIMD of ARMv8.0), 4 lanes. */
#ifndef ATT_CPU_SIMD_H
#define ATT_CPU_SIMD_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

enum { VF_W = 4 };
typedef float32x4_t vf;

static inline vf vf_set1(float x) {
    return vdupq_n_f32(x);
}
static inline vf vf_load(const float *p) {
    return vld1q_f32(p);
}
static inline void vf_store(float *p, vf a) {
    vst1q_f32(p, a);
}
static inline vf vf_add(vf a, vf b) {
    return vaddq_f32(a, b);
}
static inline vf vf_sub(vf a, vf b) {
    return vsubq_f32(a, b);
}
static inline vf vf_mul(vf a, vf b) {
    return vmulq_f32(a, b);
}
static inline vf vf_div(vf a, vf b) {
    return vdivq_f32(a, b);
}
/* a * b + c, rounded once */
static inline vf vf_fma(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}
/* a * b + c if the number of roundings does not matter */
static inline vf vf_muladd(vf a, vf b, vf c) {
    return vf_fma(a, b, c);
}
/* max and min return b if either is NaN; the processor's own return NaN, or the number. */
static inline vf vf_max(vf a, vf b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
static inline vf vf_min(vf a, vf b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
static inline vf vf_abs(vf a) {
    return vabsq_f32(a);
}
static inline vf vf_copysign(vf magnitude, vf sign) {
    return vbslq_f32(vdupq_n_u32(0x80000000u), sign, magnitude);
}
static inline uint32x4_t vf_lanes(void) {
    return (uint32x4_t){0, 1, 2, 3};
}
static inline vf vf_iota(void) {
    return vcvtq_f32_u32(vf_lanes());
}
static inline float vf_reduce_add(vf a) {
    return vaddvq_f32(a);
}
static inline float vf_reduce_max(vf a) {
    return vmaxvq_f32(a);
}

/* True if some lane is above x. */
static inline bool vf_any_above(vf a, float x) {
    return vmaxvq_u32(vcgtq_f32(a, vdupq_n_f32(x))) != 0;
}

/* x where `clear` has zeros, 0 where it has ones. */
static inline vf vf_without(vf x, uint32x4_t clear) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), clear));
}

/* 0 where test is at most `most`, x elsewhere, also where test is NaN. */
static inline vf vf_unless_at_most(vf x, vf test, float most) {
    return vf_without(x, vcleq_f32(test, vdupq_n_f32(most)));
}

/* out[i] = sum of the lanes of a[i]. */
static inline void vf_reduce_add4(const vf a[4], float out[4]) {
    vst1q_f32(out, vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3])));
}

/* All ones in lanes 0 .. n-1. */
static inline uint32x4_t vf_first(int64_t n) {
    const uint32_t count = n < 0 ? 0 : n > VF_W ? VF_W : (uint32_t)n;
    return vcltq_u32(vf_lanes(), vdupq_n_u32(count));
}

/* Lanes lo .. hi-1 of a, `fill` elsewhere. */
static inline vf vf_between(vf a, int64_t lo, int64_t hi, float fill) {
    return vbslq_f32(vbicq_u32(vf_first(hi), vf_first(lo)), a, vdupq_n_f32(fill));
}

/* x - floor(x), and 2^floor(x) * p; a power below the normal range gives 0, x = NaN gives NaN.
 * The fraction of x = -inf is 0, so that its power is 0 and not NaN. A power above the range
 * gives NaN: nothing here computes one. */
static inline vf vf_fraction(vf x) {
    const vf bounded = vmaxq_f32(x, vdupq_n_f32(-127.0f));
    return vsubq_f32(bounded, vrndmq_f32(bounded));
}
static inline vf vf_scale_pow2(vf p, vf x) {
    const int32x4_t n = vcvtmq_s32_f32(x); /* rounded down; the nearest integer there is */
    const int32x4_t scaled = vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(n, 23));
    const uint32x4_t tiny = vcltq_f32(x, vdupq_n_f32(-126.0f));
    const uint32x4_t ordinary = vcltq_f32(x, vdupq_n_f32(128.0f)); /* and not NaN */
    const uint32x4_t bits = vbicq_u32(vreinterpretq_u32_s32(scaled), tiny);
    return vreinterpretq_f32_u32(vornq_u32(bits, ordinary));
}
static inline vf vf_round(vf x) {
    return vrndnq_f32(x);
}

/* The first n < 4 of four 16-bit elements, zeros past them. */
static inline uint16x4_t vf_load_some_u16(const uint16_t *p, int64_t n) {
    uint16x4_t some = vld1_lane_u16(p, vdup_n_u16(0), 0);
    if (n > 1)
        some = vld1_lane_u16(p + 1, some, 1);
    if (n > 2)
        some = vld1_lane_u16(p + 2, some, 2);
    return some;
}

/* Load n >= 1 elements widened to float; lanes past n are 0 and their memory is not read. */
static inline vf vf_load_as(const void *p, att_dtype dtype, int64_t n) {
    if (dtype == ATT_F32) {
        const float *from = p;
        if (n >= VF_W)
            return vld1q_f32(from);
        vf some = vld1q_lane_f32(from, vdupq_n_f32(0.0f), 0);
        if (n > 1)
            some = vld1q_lane_f32(from + 1, some, 1);
        if (n > 2)
            some = vld1q_lane_f32(from + 2, some, 2);
        return some;
    }
    const uint16x4_t half = n >= VF_W ? vld1_u16(p) : vf_load_some_u16(p, n);
    if (dtype == ATT_F16)
        return vcvt_f32_f16(vreinterpret_f16_u16(half));
    return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

/* Load n >= 1 bytes of a boolean mask as bias: 0 for a nonzero byte, -inf for a zero one and
 * past n, where memory is not read. */
static inline vf vf_load_hiding(const void *p, int64_t n) {
    uint32_t bytes = 0;
    memcpy(&bytes, p, n >= VF_W ? VF_W : (size_t)n);
    const uint16x8_t wide = vmovl_u8(vcreate_u8(bytes));
    const uint32x4_t hidden = vceqzq_u32(vmovl_u16(vget_low_u16(wide)));
    const uint32x4_t infinity = vreinterpretq_u32_f32(vdupq_n_f32(-__builtin_inff()));
    return vreinterpretq_f32_u32(vandq_u32(hidden, infinity));
}

/* The nearest bfloat16, ties to even. */
static inline uint16x4_t vf_to_bf16(vf a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), up, vdupq_n_u32(0x7fc00000)), 16);
}

/* Round to nearest even and store n >= 1 elements. */
static inline void vf_store_as(void *p, att_dtype dtype, vf a, int64_t n) {
    if (dtype == ATT_F32) {
        float *to = p;
        if (n >= VF_W) {
            vst1q_f32(to, a);
            return;
        }
        vst1q_lane_f32(to, a, 0);
        if (n > 1)
            vst1q_lane_f32(to + 1, a, 1);
        if (n > 2)
            vst1q_lane_f32(to + 2, a, 2);
        return;
    }
    const uint16x4_t half =
        dtype == ATT_F16 ? vreinterpret_u16_f16(vcvt_f16_f32(a)) : vf_to_bf16(a);
    uint16_t *to = p;
    if (n >= VF_W) {
        vst1_u16(to, half);
        return;
    }
    vst1_lane_u16(to, half, 0);
    if (n > 1)
        vst1_lane_u16(to + 1, half, 1);
    if (n > 2)
        vst1_lane_u16(to + 2, half, 2);
}

/* Transpose 4 rows of 4 floats in registers. */
static inline void vf_transpose(vf r[VF_W]) {
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
    const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
    const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}

#endif
