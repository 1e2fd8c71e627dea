/* simd_avx512.h: the engine's vector of floats on AVX-512, 16 lanes. */
#ifndef ATT_CPU_SIMD_H
#define ATT_CPU_SIMD_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

enum { VF_W = 16 };
typedef __m512 vf;

static inline vf vf_set1(float x) {
    return _mm512_set1_ps(x);
}
static inline vf vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void vf_store(float *p, vf a) {
    _mm512_storeu_ps(p, a);
}
static inline vf vf_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
/* a * b + c, rounded once */
static inline vf vf_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
/* a * b + c if the number of roundings does not matter */
static inline vf vf_muladd(vf a, vf b, vf c) {
    return vf_fma(a, b, c);
}
/* max and min return b if either is NaN */
static inline vf vf_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
static inline vf vf_abs(vf a) {
    return _mm512_abs_ps(a);
}
static inline vf vf_copysign(vf magnitude, vf sign) {
    const vf bit = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(bit, magnitude), _mm512_and_ps(bit, sign));
}
static inline vf vf_iota(void) {
    return _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}
static inline float vf_reduce_add(vf a) {
    return _mm512_reduce_add_ps(a);
}
static inline float vf_reduce_max(vf a) {
    return _mm512_reduce_max_ps(a);
}

/* True if some lane is above x. */
static inline bool vf_any_above(vf a, float x) {
    return _mm512_cmp_ps_mask(a, _mm512_set1_ps(x), _CMP_GT_OQ) != 0;
}

/* True if every lane is at most x and none is NaN. */
static inline bool vf_all_at_most(vf a, float x) {
    return _mm512_cmp_ps_mask(a, _mm512_set1_ps(x), _CMP_LE_OQ) == 0xffff;
}

/* 0 where test is at most `most`, x elsewhere, also where test is NaN. */
static inline vf vf_unless_at_most(vf x, vf test, float most) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(test, _mm512_set1_ps(most), _CMP_NLE_UQ), x);
}

/* out[i] = sum of the lanes of a[i]: four sums for little more than the cost of one. */
static inline void vf_reduce_add4(const vf a[4], float out[4]) {
    const __m512 ab =
        _mm512_add_ps(_mm512_unpacklo_ps(a[0], a[1]), _mm512_unpackhi_ps(a[0], a[1]));
    const __m512 cd =
        _mm512_add_ps(_mm512_unpacklo_ps(a[2], a[3]), _mm512_unpackhi_ps(a[2], a[3]));
    const __m512 abcd =
        _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
    _mm_storeu_ps(out,
                  _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}

static inline __mmask16 vf_first(int64_t n) {
    return (__mmask16)(n >= VF_W ? 0xffffu : (1u << n) - 1u);
}

/* Lanes lo .. hi-1 of a, `fill` elsewhere; 0 <= lo, hi may exceed the width. */
static inline vf vf_between(vf a, int64_t lo, int64_t hi, float fill) {
    const __mmask16 keep =
        (__mmask16)(vf_first(hi < 0 ? 0 : hi) & ~vf_first(lo < VF_W ? lo : VF_W));
    return _mm512_mask_blend_ps(keep, _mm512_set1_ps(fill), a);
}

/* x - floor(x), and 2^floor(x) * p; the power is 0 for x = -inf, NaN for NaN. */
static inline vf vf_fraction(vf x) {
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
static inline vf vf_scale_pow2(vf p, vf x) {
    return _mm512_scalef_ps(p, x);
}
static inline vf vf_round(vf x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Load n >= 1 elements widened to float; lanes past n are 0 and their memory is not read. */
static inline vf vf_load_as(const void *p, att_dtype dtype, int64_t n) {
    if (n >= VF_W) {
        if (dtype == ATT_F32)
            return _mm512_loadu_ps(p);
        const __m256i half = _mm256_loadu_si256((const __m256i *)p);
        if (dtype == ATT_F16)
            return _mm512_cvtph_ps(half);
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
    }
    const __mmask16 keep = vf_first(n);
    if (dtype == ATT_F32)
        return _mm512_maskz_loadu_ps(keep, p);
    const __m256i half = _mm256_maskz_loadu_epi16(keep, p);
    if (dtype == ATT_F16)
        return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* Load n >= 1 bytes of a boolean mask as bias: 0 for a nonzero byte, -inf for a zero one and
 * past n, where memory is not read. */
static inline vf vf_load_hiding(const void *p, int64_t n) {
    const __m128i bytes = _mm_maskz_loadu_epi8(vf_first(n), p);
    return _mm512_mask_blend_ps(_mm_test_epi8_mask(bytes, bytes),
                                _mm512_set1_ps(-__builtin_inff()), _mm512_setzero_ps());
}

/* Rounded to nearest even. */
static inline __m256i vf_to_bf16(vf a) {
#ifdef __AVX512BF16__
    return (__m256i)_mm512_cvtneps_pbh(a);
#else
    const __m512i u = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_srli_epi32(
        _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    r = _mm512_mask_mov_epi32(r, nan, _mm512_set1_epi32(0x7fc0));
    return _mm512_cvtepi32_epi16(r);
#endif
}

/* Round to nearest even and store n >= 1 elements. */
static inline void vf_store_as(void *p, att_dtype dtype, vf a, int64_t n) {
    const __mmask16 keep = vf_first(n);
    if (dtype == ATT_F32) {
        _mm512_mask_storeu_ps(p, keep, a);
    } else if (dtype == ATT_F16) {
        const __m256i half = _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm256_mask_storeu_epi16(p, keep, half);
    } else {
        const __m256i half = vf_to_bf16(a);
        if (n >= VF_W)
            _mm256_storeu_si256(p, half);
        else
            _mm256_mask_storeu_epi16(p, keep, half);
    }
}

/* Transpose 16 rows of 16 floats in registers. */
static inline void vf_transpose(vf r[VF_W]) {
    __m512 t[16];
    for (int i = 0; i < 8; i++) { /* pairs of rows, 32-bit lanes */
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) { /* quads of rows, 64-bit lanes */
        const __m512d a = _mm512_castps_pd(t[4 * i]), b = _mm512_castps_pd(t[4 * i + 1]);
        const __m512d c = _mm512_castps_pd(t[4 * i + 2]), d = _mm512_castps_pd(t[4 * i + 3]);
        r[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        r[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        r[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        r[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for (int i = 0; i < 4; i++) { /* 128-bit lanes */
        t[i] = _mm512_shuffle_f32x4(r[i], r[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_f32x4(r[i], r[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0xdd);
        r[4 + i] = _mm512_shuffle_f32x4(t[4 + i], t[12 + i], 0x88);
        r[12 + i] = _mm512_shuffle_f32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

#endif
