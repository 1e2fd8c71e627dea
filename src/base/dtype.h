/* dtype.h: element sizes and exact scalar conversions (IEEE round to nearest even). */
#ifndef ATT_BASE_DTYPE_H
#define ATT_BASE_DTYPE_H

#include <stdint.h>
#include <string.h>

#include "attest.h"

const char *att_dtype_name(att_dtype dtype);

/* att_dtype_size() for inner loops, where a call costs more than the computation. */
static inline int64_t att_dtype_bytes(att_dtype dtype) {
    switch (dtype) {
    case ATT_F32:
        return 4;
    case ATT_F16:
    case ATT_BF16:
        return 2;
    case ATT_BOOL8:
        return 1;
    }
    return 0;
}

static inline uint32_t att_f32_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float att_bits_f32(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float att_bf16_to_f32(uint16_t h) {
    return att_bits_f32((uint32_t)h << 16);
}

static inline uint16_t att_f32_to_bf16(float x) {
    const uint32_t u = att_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x40u); /* a quiet NaN, sign kept */
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static inline float att_f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) /* Inf, NaN */
        return att_bits_f32(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x0400u)
        return att_bits_f32(sign | ((magnitude << 13) + 0x38000000u));
    const float tiny = (float)magnitude * 0x1p-24f; /* subnormal, exact */
    return sign ? -tiny : tiny;
}

uint16_t att_f32_to_f16(float x);

/* Element `index` of an array of `dtype`, as a float; BOOL8 gives 0 or 1. */
static inline float att_load(const void *base, att_dtype dtype, int64_t index) {
    switch (dtype) {
    case ATT_F32:
        return ((const float *)base)[index];
    case ATT_F16:
        return att_f16_to_f32(((const uint16_t *)base)[index]);
    case ATT_BF16:
        return att_bf16_to_f32(((const uint16_t *)base)[index]);
    case ATT_BOOL8:
        return ((const uint8_t *)base)[index] != 0 ? 1.0f : 0.0f;
    }
    return 0.0f;
}

/* Elements [index, index + n) at once: the same bits as att_load(), several times as fast. */
void att_load_row(float *row, const void *base, att_dtype dtype, int64_t index, int64_t n);

/* Round `x` to `dtype` and store it as element `index`. */
static inline void att_store(void *base, att_dtype dtype, int64_t index, float x) {
    if (dtype == ATT_F32)
        ((float *)base)[index] = x;
    else if (dtype == ATT_F16)
        ((uint16_t *)base)[index] = att_f32_to_f16(x);
    else
        ((uint16_t *)base)[index] = att_f32_to_bf16(x);
}

#endif
