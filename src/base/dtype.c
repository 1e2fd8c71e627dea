/* dtype.c: element sizes, names, the float16 rounding that is too long for a header, and
 * conversion of whole rows. */
#include "base/dtype.h"

size_t att_dtype_size(att_dtype dtype) {
    return (size_t)att_dtype_bytes(dtype);
}

const char *att_dtype_name(att_dtype dtype) {
    switch (dtype) {
    case ATT_F32:
        return "f32";
    case ATT_F16:
        return "f16";
    case ATT_BF16:
        return "bf16";
    case ATT_BOOL8:
        return "bool8";
    }
    return "?";
}

uint16_t att_f32_to_f16(float x) {
    const uint32_t u = att_f32_bits(x);
    const uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    const uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (a >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (a < 0x38800000u) { /* below 2^-14: a multiple of 2^-24, rounded by the float adder */
        const float rounded = att_bits_f32(a) + 0.5f; /* 0.5 has an ulp of 2^-24 */
        return (uint16_t)(sign | (att_f32_bits(rounded) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
}

/* Branch-free, so that the compiler can vectorise it. The bits of a float16, shifted into a
 * float32, are that number times 2^-112, subnormal or not; infinities and NaN still need the
 * upper bits of their exponent. */
static float f16_to_f32_straight(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t magnitude = h & 0x7fffu;
    const uint32_t is_special = 0u - (uint32_t)(magnitude > 0x7bffu);
    const uint32_t scaled = att_f32_bits(att_bits_f32(magnitude << 13) * 0x1p112f);
    return att_bits_f32(sign | (scaled + (is_special & 0x38000000u)));
}

void att_load_row(float *row, const void *base, att_dtype dtype, int64_t index, int64_t n) {
    const uint16_t *half = (const uint16_t *)base + index;
    switch (dtype) {
    case ATT_F16:
        for (int64_t i = 0; i < n; i++)
            row[i] = f16_to_f32_straight(half[i]);
        break;
    case ATT_BF16:
        for (int64_t i = 0; i < n; i++)
            row[i] = att_bf16_to_f32(half[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            row[i] = att_load(base, dtype, index + i);
    }
}
