/* small_floats.h: the 16-bit floating-point types, in plain C: rounded to nearest even, with
 * subnormals, infinities and NaN. The library has its own (base/dtype.h), with other NaN
 * encodings than the hardware's; its kernels must not be judged by it. Inline: products convert
 * every element that they read. */
#ifndef ATT_VGPU_SMALL_FLOATS_H
#define ATT_VGPU_SMALL_FLOATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

static inline float f16_to_float(uint16_t x) {
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31,
                   fraction = x & 0x3ff;
    if (exponent == 0) { /* fraction * 2^-24 */
        const float small = (float)fraction * 0x1p-24f;
        return sign ? -small : small;
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return att_bits_f32(sign | wide << 23 | fraction << 13);
}

static inline uint16_t f16_from_float(float x) {
    const uint32_t bits = att_f32_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return 0x7fff;      /* NaN has one form */
    if (size >= 0x477ff000) /* half way to 65536 and on */
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) { /* subnormal: adding 0.5 leaves it, rounded, in the low bits */
        const uint32_t sum = att_f32_bits(att_bits_f32(size) + 0.5f);
        return (uint16_t)(sign | (sum - 0x3f000000));
    }
    const uint32_t even = size >> 13 & 1;
    return (uint16_t)(sign | (size - (112u << 23) + 0xfff + even) >> 13);
}

static inline float bf16_to_float(uint16_t x) {
    return att_bits_f32((uint32_t)x << 16);
}

static inline uint16_t bf16_from_float(float x) {
    const uint32_t bits = att_f32_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float small_to_float(uint16_t x, bool is_bf16) {
    return is_bf16 ? bf16_to_float(x) : f16_to_float(x);
}

static inline uint16_t small_from_float(float x, bool is_bf16) {
    return is_bf16 ? bf16_from_float(x) : f16_from_float(x);
}

#endif
