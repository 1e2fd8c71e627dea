/* bf16_pairs.h: vectors of pairs of bfloat16 and their products with AVX512-BF16, or their
 * equivalent in C.
 *
 * A vector of pairs is a vf in which each lane holds the bits of two bfloat16, the first in the
 * lower half. */
#ifndef ATT_CPU_BF16_PAIRS_H
#define ATT_CPU_BF16_PAIRS_H

#include "cpu/simd_wide.h"

#ifndef ATT_AVX512_EMULATE

/* sum + a.second * b.second + a.first * b.first per lane, each addition rounded; subnormal
 * operands and results count as zero. */
static inline vf vf_dot_pairs(vf a, vf b, vf sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

/* Load n >= 1 elements, at most 2 * VF_W, zero-padded. */
static inline vf vf_load_pairs(const void *p, int64_t n) {
    if (n >= 2 * VF_W)
        return _mm512_castsi512_ps(_mm512_loadu_si512(p));
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16((1u << n) - 1u, p));
}

/* Store 2 * VF_W floats, rounded to nearest even. */
static inline void vf_store_pairs(void *p, vf low, vf high) {
    _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* Element i of a and element i of b become pair i, counted over low and high. */
static inline void vf_zip_pairs(vf a, vf b, vf *low, vf *high) {
    const __m512i first =
        _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                         38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    const __m512i x = _mm512_castps_si512(a), y = _mm512_castps_si512(b);
    *low = _mm512_castsi512_ps(_mm512_permutex2var_epi16(x, first, y));
    *high = _mm512_castsi512_ps(_mm512_permutex2var_epi16(x, second, y));
}

/* Lane i becomes the pair of first[i] and second[i], rounded to nearest even. */
static inline vf vf_round_pairs(vf first, vf second) {
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, halves));
}

/* Zeros in place of Inf and NaN. */
static inline vf vf_finite_pairs(vf a) {
    const __m512i x = _mm512_castps_si512(a), most = _mm512_set1_epi16(0x7f80);
    const __mmask32 finite = _mm512_cmpneq_epi16_mask(_mm512_and_si512(x, most), most);
    return _mm512_castsi512_ps(_mm512_maskz_mov_epi16(finite, x));
}

#else

static inline float flush_subnormal(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

static inline float first_of_pair(float pair) {
    return flush_subnormal(att_bits_f32(att_f32_bits(pair) << 16));
}

static inline float second_of_pair(float pair) {
    return flush_subnormal(att_bits_f32(att_f32_bits(pair) & 0xffff0000u));
}

static inline vf vf_dot_pairs(vf a, vf b, vf sum) {
    for (int i = 0; i < VF_W; i++) {
        const float x = a.lane[i], y = b.lane[i];
        float s = flush_subnormal(sum.lane[i]);
        s = flush_subnormal(fmaf(second_of_pair(x), second_of_pair(y), s));
        sum.lane[i] = flush_subnormal(fmaf(first_of_pair(x), first_of_pair(y), s));
    }
    return sum;
}

static inline vf vf_load_pairs(const void *p, int64_t n) {
    vf pairs = vf_set1(0.0f);
    memcpy(&pairs, p, (size_t)(n < 2 * VF_W ? n : 2 * VF_W) * sizeof(uint16_t));
    return pairs;
}

static inline void vf_store_pairs(void *p, vf low, vf high) {
    uint16_t to[2 * VF_W];
    for (int i = 0; i < VF_W; i++) {
        to[i] = att_f32_to_bf16(flush_subnormal(low.lane[i]));
        to[VF_W + i] = att_f32_to_bf16(flush_subnormal(high.lane[i]));
    }
    memcpy(p, to, sizeof to);
}

static inline void vf_zip_pairs(vf a, vf b, vf *low, vf *high) {
    uint16_t from[2][2 * VF_W], to[4 * VF_W];
    memcpy(from[0], &a, sizeof a);
    memcpy(from[1], &b, sizeof b);
    for (int i = 0; i < 2 * VF_W; i++) {
        to[2 * i] = from[0][i];
        to[2 * i + 1] = from[1][i];
    }
    memcpy(low, to, sizeof *low);
    memcpy(high, to + 2 * VF_W, sizeof *high);
}

static inline vf vf_round_pairs(vf first, vf second) {
    uint16_t to[2 * VF_W];
    for (int i = 0; i < VF_W; i++) {
        to[2 * i] = att_f32_to_bf16(flush_subnormal(first.lane[i]));
        to[2 * i + 1] = att_f32_to_bf16(flush_subnormal(second.lane[i]));
    }
    vf pairs;
    memcpy(&pairs, to, sizeof pairs);
    return pairs;
}

static inline vf vf_finite_pairs(vf a) {
    uint16_t x[2 * VF_W];
    memcpy(x, &a, sizeof a);
    for (int i = 0; i < 2 * VF_W; i++)
        x[i] = (x[i] & 0x7f80) == 0x7f80 ? 0 : x[i];
    memcpy(&a, x, sizeof a);
    return a;
}

#endif

#endif
