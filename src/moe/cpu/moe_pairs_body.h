/* moe_pairs_body.h: the steps of a product with the bfloat16 dot products of AVX512-BF16. */
#ifndef ATT_MOE_CPU_PAIRS_BODY_H
#define ATT_MOE_CPU_PAIRS_BODY_H

#include "base/dtype.h"
#include "cpu/bf16_pairs.h"
#include "cpu/math_body.h"

typedef uint16_t operand;

/* As in moe_fma_body.h. */
enum { MULTIPLIES_PAIRS = 1, DEPTH_STEP = 2 * VF_W, COLUMN_DEPTH = 2 };

VF_INLINE vf load_operands(const operand *x, int64_t count) {
    return vf_load_pairs(x, count);
}

VF_INLINE vf load_weights(const char *w, const att_dtype dtype, int64_t count) {
    (void)dtype;
    return vf_load_pairs(w, count);
}

VF_INLINE vf multiply_add(vf x, vf w, vf sum) {
    return vf_dot_pairs(x, w, sum);
}

/* A pair of depths in every lane; the last of an odd number is paired with zero. */
VF_INLINE vf spread_operands(const operand *x, int64_t left) {
    const uint32_t pair = left > 1 ? (uint32_t)x[0] | (uint32_t)x[1] << 16 : x[0];
    return vf_set1(att_bits_f32(pair));
}

VF_INLINE void load_columns(const char *w, int64_t step, int64_t left, const att_dtype dtype,
                            int64_t columns, const int vectors, vf *list) {
    (void)dtype;
    for (int n = 0; n < vectors; n += 2) {
        const int64_t at = (int64_t)n * VF_W;
        const vf none = vf_set1(0.0f);
        const char *from = w + at * (int64_t)sizeof(uint16_t);
        const vf first = at < columns ? vf_load_pairs(from, columns - at) : none;
        const vf second =
            at < columns && left > 1 ? vf_load_pairs(from + step, columns - at) : none;
        vf_zip_pairs(first, second, &list[n], &list[n + 1]);
    }
}

VF_INLINE void store_operands(operand *to, att_dtype dtype, vf values, int64_t count) {
    vf_store_as(to, dtype, values, count);
}

#endif
