/* number_types.c: float16 and bfloat16 with ldexp and frexp, slow and simple; what every pattern
 * of 16 bits means is computed once. */
#include "tests/fuzz/number_types.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* A 16-bit binary format. */
typedef struct format {
    int mantissa; /* bits of it that are stored */
    int bias;
} format;

static format format_of(att_dtype dtype) {
    return dtype == ATT_F16 ? (format){10, 15} : (format){7, 127};
}

static double decode(uint16_t bits, format f) {
    const int top = (1 << (15 - f.mantissa)) - 1;
    const int exponent = bits >> f.mantissa & top, fraction = bits & ((1 << f.mantissa) - 1);
    double value;
    if (exponent == top)
        value = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, 1 - f.bias - f.mantissa);
    else
        value = ldexp(fraction + (1 << f.mantissa), exponent - f.bias - f.mantissa);
    return bits >> 15 ? -value : value;
}

/* What `bits` mean, from a table of the type. */
static double decoded(uint16_t bits, att_dtype dtype) {
    static double tables[2][1 << 16];
    static bool filled[2];
    const int which = dtype == ATT_F16;
    for (uint32_t i = 0; !filled[which] && i < 1 << 16; i++)
        tables[which][i] = decode((uint16_t)i, format_of(dtype));
    filled[which] = true;
    return tables[which][bits];
}

static uint16_t encode(double value, format f) {
    const uint16_t sign = (uint16_t)(signbit(value) ? 0x8000 : 0);
    const int top = (1 << (15 - f.mantissa)) - 1;
    if (isnan(value))
        return (uint16_t)(sign | top << f.mantissa | 1 << (f.mantissa - 1));
    int exponent = 0;
    frexp(value, &exponent); /* 2^(exponent-1) <= |value| < 2^exponent */
    if (exponent - 1 < 1 - f.bias)
        exponent = 2 - f.bias;
    if (isinf(value))
        return (uint16_t)(sign | top << f.mantissa);
    /* In ulp; a carry propagates into the exponent. */
    const double units = nearbyint(ldexp(fabs(value), f.mantissa - (exponent - 1)));
    const long steps = (long)units + ((long)(exponent - 2 + f.bias) << f.mantissa);
    const long most = (long)top << f.mantissa;
    return (uint16_t)(sign | (steps > most ? most : steps));
}

double load_number(const void *base, att_dtype dtype, int64_t index) {
    if (dtype == ATT_BOOL8)
        return ((const uint8_t *)base)[index];
    if (dtype == ATT_F32) {
        float value;
        memcpy(&value, (const char *)base + 4 * index, 4);
        return (double)value;
    }
    uint16_t bits;
    memcpy(&bits, (const char *)base + 2 * index, 2);
    return decoded(bits, dtype);
}

void store_number(void *base, att_dtype dtype, int64_t index, double value) {
    if (dtype == ATT_BOOL8) {
        ((uint8_t *)base)[index] = value > 0.0;
    } else if (dtype == ATT_F32) {
        const float rounded = (float)value;
        memcpy((char *)base + 4 * index, &rounded, 4);
    } else {
        const uint16_t bits = encode(value, format_of(dtype));
        memcpy((char *)base + 2 * index, &bits, 2);
    }
}

double rounding_relative(att_dtype dtype) {
    return ldexp(1.0, dtype == ATT_F32 ? -24 : -1 - format_of(dtype).mantissa);
}

double rounding_absolute(att_dtype dtype) {
    if (dtype == ATT_F32)
        return ldexp(1.0, -126);
    const format f = format_of(dtype);
    return ldexp(1.0, -f.bias - f.mantissa);
}
