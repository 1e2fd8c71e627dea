/* simd_avx2.h: the engine's vector of floats on AVX2 with FMA and F16C, 8 lanes. */
#ifndef ATT_CPU_SIMD_H
#define ATT_CPU_SIMD_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

enum { VF_W = 8 };
typedef __m256 vf;

static inline vf vf_set1(float x) {
    return _mm256_set1_ps(x);
}
static inline vf vf_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline void vf_store(float *p, vf a) {
    _mm256_storeu_ps(p, a);
}
static inline vf vf_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
/* a * b + c, rounded once */
static inline vf vf_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
/* a * b + c if the number of roundings does not matter */
static inline vf vf_muladd(vf a, vf b, vf c) {
    return vf_fma(a, b, c);
}
/* max and min return b if either is NaN */
static inline vf vf_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
static inline vf vf_abs(vf a) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
static inline vf vf_copysign(vf magnitude, vf sign) {
    const vf bit = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign));
}
static inline vf vf_iota(void) {
    return _mm256_set_ps(7, 6, 5, 4, 3, 2, 1, 0);
}
static inline float vf_reduce_add(vf a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline float vf_reduce_max(vf a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/* True if some lane is above x. */
static inline bool vf_any_above(vf a, float x) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a, _mm256_set1_ps(x), _CMP_GT_OQ)) != 0;
}

/* 0 where test is at most `most`, x elsewhere, also where test is NaN. */
static inline vf vf_unless_at_most(vf x, vf test, float most) {
    return _mm256_and_ps(x, _mm256_cmp_ps(test, _mm256_set1_ps(most), _CMP_NLE_UQ));
}

/* out[i] = sum of the lanes of a[i]. */
static inline void vf_reduce_add4(const vf a[4], float out[4]) {
    const __m256 ab = _mm256_hadd_ps(a[0], a[1]), cd = _mm256_hadd_ps(a[2], a[3]);
    const __m256 abcd = _mm256_hadd_ps(ab, cd);
    _mm_storeu_ps(out,
                  _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
}

/* All ones in lanes 0 .. n-1. */
static inline __m256i vf_first(int64_t n) {
    const int count = n < 0 ? 0 : n > VF_W ? VF_W : (int)n;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count),
                              _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}

/* Lanes lo .. hi-1 of a, `fill` elsewhere. */
static inline vf vf_between(vf a, int64_t lo, int64_t hi, float fill) {
    const __m256i keep = _mm256_andnot_si256(vf_first(lo), vf_first(hi));
    return _mm256_blendv_ps(_mm256_set1_ps(fill), a, _mm256_castsi256_ps(keep));
}

/* x - floor(x), and 2^floor(x) * p; a power below the normal range gives 0, x = NaN gives NaN.
 * The fraction of x = -inf is 0, so that its power is 0 and not NaN. */
static inline vf vf_fraction(vf x) {
    const __m256 bounded = _mm256_max_ps(_mm256_set1_ps(-127.0f), x);
    return _mm256_sub_ps(bounded, _mm256_floor_ps(bounded));
}
static inline vf vf_scale_pow2(vf p, vf x) {
    const __m256 bounded = _mm256_max_ps(_mm256_set1_ps(-127.0f), x);
    const __m256i n = _mm256_cvtps_epi32(_mm256_floor_ps(bounded));
    const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(n, 23));
    const __m256 tiny = _mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_LT_OQ);
    const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    return _mm256_or_ps(_mm256_andnot_ps(tiny, _mm256_castsi256_ps(bits)), nan);
}
static inline vf vf_round(vf x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Load n >= 1 elements widened to float; lanes past n are 0 and their memory is not read. */
static inline vf vf_load_as(const void *p, att_dtype dtype, int64_t n) {
    if (dtype == ATT_F32)
        return n >= VF_W ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, vf_first(n));
    __m128i half;
    if (n >= VF_W) {
        half = _mm_loadu_si128((const __m128i *)p);
    } else {
        uint16_t part[8] = {0};
        memcpy(part, p, (size_t)n * sizeof part[0]);
        half = _mm_loadu_si128((const __m128i *)part);
    }
    if (dtype == ATT_F16)
        return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* Load n >= 1 bytes of a boolean mask as bias: 0 for a nonzero byte, -inf for a zero one and
 * past n, where memory is not read. */
static inline vf vf_load_hiding(const void *p, int64_t n) {
    int64_t bytes = 0;
    memcpy(&bytes, p, n >= VF_W ? VF_W : (size_t)n);
    const __m128i hidden = _mm_cmpeq_epi8(_mm_cvtsi64_si128(bytes), _mm_setzero_si128());
    return _mm256_and_ps(_mm256_castsi256_ps(_mm256_cvtepi8_epi32(hidden)),
                         _mm256_set1_ps(-__builtin_inff()));
}

/* Round to nearest even and store n >= 1 elements. */
static inline void vf_store_as(void *p, att_dtype dtype, vf a, int64_t n) {
    if (dtype == ATT_F32) {
        if (n >= VF_W)
            _mm256_storeu_ps(p, a);
        else
            _mm256_maskstore_ps(p, vf_first(n), a);
        return;
    }
    __m128i half;
    if (dtype == ATT_F16) {
        half = _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else {
        const __m256i u = _mm256_castps_si256(a);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
        const __m256i up =
            _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        const __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
        const __m256i r =
            _mm256_srli_epi32(_mm256_castps_si256(_mm256_blendv_ps(
                                  _mm256_castsi256_ps(up),
                                  _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), nan)),
                              16);
        half = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
    }
    if (n >= VF_W) {
        _mm_storeu_si128((__m128i *)p, half);
    } else {
        uint16_t part[8];
        _mm_storeu_si128((__m128i *)part, half);
        memcpy(p, part, (size_t)n * sizeof part[0]);
    }
}

/* Transpose 8 rows of 8 floats in registers. */
static inline void vf_transpose(vf r[VF_W]) {
    __m256 t[8];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        const __m256 low = r[i], high = r[4 + i];
        r[i] = _mm256_permute2f128_ps(low, high, 0x20);
        r[4 + i] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}

#endif
