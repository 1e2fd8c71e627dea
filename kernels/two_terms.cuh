/* two_terms.cuh: float32 numbers as the sum of two float16, for tensor-core products at float32
 * accuracy.
 *
 * x * 2^k = big + small + rest: big is x * 2^k rounded to float16, small is the remainder
 * rounded to float16. Each has 11 bits, so |rest| <= 2^-23 |x * 2^k|, or 2^-25 if that is
 * larger: the spacing of float16 ends at 2^-24. The power of two is chosen per row of numbers,
 * so that its largest is in [2^14, 2^15); 2^-25 is then 2^-39 of the row's largest.
 *
 * A product needs three tensor-core products, big * big + big * small + small * big. small *
 * small, at most 2^-22 of it and 2^-24.6 on average, is omitted. Float16 runs at twice the rate
 * of TF32, so this costs half as much as 3xTF32 with terms of the same length, and half as much
 * as six bfloat16 products.
 *
 * Tensor cores do not round to nearest when adding to float32: they truncate. Sums are
 * therefore kept short, and the products with a small term, 2^-11 of the others, have separate
 * sums, in which truncation is negligible. */
#ifndef ATT_TWO_TERMS_CUH
#define ATT_TWO_TERMS_CUH

#include "kernels/convert.cuh"
#include "kernels/math.cuh"

/* The largest of a row is scaled to this power of two. */
#define TERM_BITS 14

/* Biased exponents of float32: with 127 added. */
#define EXPONENT_ONE  127
#define EXPONENT_LEAST (EXPONENT_ONE - 80) /* rows of smaller numbers are scaled like this */
#define EXPONENT_MOST  (EXPONENT_ONE + 96) /* scores of larger rows might overflow in between */

/* The stored exponent of x >= 0, which may be infinite. */
DEVICE unsigned exponent_of(float x) {
    return max(__float_as_uint(x) >> 23, (unsigned)EXPONENT_LEAST);
}

/* 2^(exponent - 127 - down), for results above 2^-127. */
DEVICE float power_of(unsigned exponent, int down) {
    return __uint_as_float(exponent - down << 23);
}

/* The factor for the numbers of a row before they are split into terms. */
DEVICE float scale_up(unsigned exponent) {
    return __uint_as_float((2 * EXPONENT_ONE + TERM_BITS) - exponent << 23);
}

/* Marks a row whose products must be recomputed. */
#define UNKNOWN __int_as_float(0x7fffffff)

/* A pair of numbers; each word has the first one in its low half. */
typedef struct two_terms {
    unsigned big, small;
} two_terms;

DEVICE two_terms two_terms_of(float x, float y, float scale) {
    two_terms t;
    t.big = pack_16(F16, x * scale, y * scale);
    t.small = pack_16(F16, fmaf(x, scale, -f16_to_float((half_bits)(t.big & 0xffffu))),
                      fmaf(y, scale, -f16_to_float((half_bits)(t.big >> 16))));
    return t;
}

DEVICE float largest_of(float4 x) {
    return fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
}

#endif
