/* dtype.c: element sizes, names, and the float16 rounding that does not fit a header. */
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
