/* simd_portable.h: the engine's vector of floats in plain C, with 4 lanes that any compiler can
 * keep in a register, or VF_LANES, a multiple of 4, if the including file defines it. */
#ifndef ATT_CPU_SIMD_H
#define ATT_CPU_SIMD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

#ifndef VF_LANES
#define VF_LANES 4
#endif
enum { VF_W = VF_LANES };
typedef struct {
    float lane[VF_W];
} vf;

#define VF_EACH(expression)                                                                    \
    vf r;                                                                                      \
    for (int i = 0; i < VF_W; i++)                                                             \
        r.lane[i] = (expression);                                                              \
    return r

static inline vf vf_set1(float x) {
    VF_EACH(x);
}
static inline vf vf_load(const float *p) {
    VF_EACH(p[i]);
}
static inline void vf_store(float *p, vf a) {
    for (int i = 0; i < VF_W; i++)
        p[i] = a.lane[i];
}
static inline vf vf_add(vf a, vf b) {
    VF_EACH(a.lane[i] + b.lane[i]);
}
static inline vf vf_sub(vf a, vf b) {
    VF_EACH(a.lane[i] - b.lane[i]);
}
static inline vf vf_mul(vf a, vf b) {
    VF_EACH(a.lane[i] * b.lane[i]);
}
static inline vf vf_div(vf a, vf b) {
    VF_EACH(a.lane[i] / b.lane[i]);
}
/* a * b + c with an exact product */
static inline vf vf_fma(vf a, vf b, vf c) {
    VF_EACH((float)((double)a.lane[i] * (double)b.lane[i] + (double)c.lane[i]));
}
/* a * b + c if the number of roundings does not matter */
static inline vf vf_muladd(vf a, vf b, vf c) {
    VF_EACH(a.lane[i] * b.lane[i] + c.lane[i]);
}
/* max and min return b if either is NaN */
static inline vf vf_max(vf a, vf b) {
    VF_EACH(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}
static inline vf vf_min(vf a, vf b) {
    VF_EACH(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}
static inline vf vf_abs(vf a) {
    VF_EACH(fabsf(a.lane[i]));
}
static inline vf vf_copysign(vf magnitude, vf sign) {
    VF_EACH(copysignf(magnitude.lane[i], sign.lane[i]));
}
static inline vf vf_iota(void) {
    VF_EACH((float)i);
}
static inline float vf_reduce_add(vf a) {
    float sum = (a.lane[0] + a.lane[1]) + (a.lane[2] + a.lane[3]);
    for (int i = 4; i < VF_W; i += 4)
        sum += (a.lane[i] + a.lane[i + 1]) + (a.lane[i + 2] + a.lane[i + 3]);
    return sum;
}
static inline float vf_reduce_max(vf a) {
    const float x = a.lane[0] > a.lane[1] ? a.lane[0] : a.lane[1];
    const float y = a.lane[2] > a.lane[3] ? a.lane[2] : a.lane[3];
    float most = x > y ? x : y;
    for (int i = 4; i < VF_W; i++)
        most = a.lane[i] > most ? a.lane[i] : most;
    return most;
}

/* True if some lane is above x. */
static inline bool vf_any_above(vf a, float x) {
    return vf_reduce_max(a) > x;
}

/* True if every lane is at most x and none is NaN. */
static inline bool vf_all_at_most(vf a, float x) {
    bool all = true;
    for (int i = 0; i < VF_W; i++)
        all = all && a.lane[i] <= x;
    return all;
}

/* 0 where test is at most `most`, x elsewhere, also where test is NaN. */
static inline vf vf_unless_at_most(vf x, vf test, float most) {
    VF_EACH(test.lane[i] <= most ? 0.0f : x.lane[i]);
}

/* out[i] = sum of the lanes of a[i]. */
static inline void vf_reduce_add4(const vf a[4], float out[4]) {
    for (int i = 0; i < 4; i++)
        out[i] = vf_reduce_add(a[i]);
}

/* Lanes lo .. hi-1 of a, `fill` elsewhere. */
static inline vf vf_between(vf a, int64_t lo, int64_t hi, float fill) {
    VF_EACH(i >= lo && i < hi ? a.lane[i] : fill);
}

/* x - floor(x), and 2^floor(x) * p; a power below the normal range gives 0, x = NaN gives NaN.
 * The fraction of x = -inf is 0, so that its power is 0 and not NaN. */
static inline vf vf_fraction(vf x) {
    VF_EACH(x.lane[i] < -127.0f ? 0.0f : x.lane[i] - floorf(x.lane[i]));
}
static inline vf vf_scale_pow2(vf p, vf x) {
    vf r;
    for (int i = 0; i < VF_W; i++) {
        const float n = x.lane[i] < -127.0f ? -127.0f : floorf(x.lane[i]);
        if (!(n >= -126.0f)) /* too small, or NaN */
            r.lane[i] = n < -126.0f ? 0.0f : x.lane[i];
        else
            r.lane[i] =
                p.lane[i] * att_bits_f32((uint32_t)((n > 127.0f ? 127 : (int)n) + 127) << 23);
    }
    return r;
}
static inline vf vf_round(vf x) {
    VF_EACH(rintf(x.lane[i]));
}

/* Load n >= 1 elements widened to float; lanes past n are 0 and their memory is not read. */
static inline vf vf_load_as(const void *p, att_dtype dtype, int64_t n) {
    VF_EACH(i < n ? att_load(p, dtype, i) : 0.0f);
}

/* Load n >= 1 bytes of a boolean mask as bias: 0 for a nonzero byte, -inf for a zero one and
 * past n, where memory is not read. */
static inline vf vf_load_hiding(const void *p, int64_t n) {
    VF_EACH(i < n && ((const uint8_t *)p)[i] != 0 ? 0.0f : -INFINITY);
}

/* Round to nearest even and store n >= 1 elements. */
static inline void vf_store_as(void *p, att_dtype dtype, vf a, int64_t n) {
    for (int i = 0; i < VF_W && i < n; i++)
        att_store(p, dtype, i, a.lane[i]);
}

/* Transpose VF_W rows of VF_W floats. */
static inline void vf_transpose(vf r[VF_W]) {
    for (int i = 0; i < VF_W; i++) {
        for (int j = i + 1; j < VF_W; j++) {
            const float swap = r[i].lane[j];
            r[i].lane[j] = r[j].lane[i];
            r[j].lane[i] = swap;
        }
    }
}

#endif
