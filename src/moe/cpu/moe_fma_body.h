/* moe_fma_body.h: the steps of a product with float32 multiply-adds, over the vf of the
 * including file. */
#ifndef ATT_MOE_CPU_FMA_BODY_H
#define ATT_MOE_CPU_FMA_BODY_H

#include "base/dtype.h"
#include "cpu/math_body.h"

typedef float operand; /* the type in which x and h are multiplied */

/* MULTIPLIES_PAIRS: an operand is half of a pair. DEPTH_STEP: operands per vector.
 * COLUMN_DEPTH: weights of a column that are multiplied at once if columns are contiguous. */
enum { MULTIPLIES_PAIRS = 0, DEPTH_STEP = VF_W, COLUMN_DEPTH = 1 };

VF_INLINE vf load_operands(const operand *x, int64_t count) {
    return vf_load_as(x, ATT_F32, count);
}

VF_INLINE vf load_weights(const char *w, const att_dtype dtype, int64_t count) {
    return vf_load_as(w, dtype, count);
}

VF_INLINE vf multiply_add(vf x, vf w, vf sum) {
    return vf_muladd(x, w, sum);
}

/* The operands of one depth in every lane; and the weights of that depth, for `columns`
 * columns, in `vectors` vectors. */
VF_INLINE vf spread_operands(const operand *x, int64_t left) {
    (void)left;
    return vf_set1(*x);
}

VF_INLINE void load_columns(const char *w, int64_t step, int64_t left, const att_dtype dtype,
                            int64_t columns, const int vectors, vf *list) {
    (void)step, (void)left;
    for (int n = 0; n < vectors; n++) {
        const int64_t at = (int64_t)n * VF_W;
        list[n] = at < columns
                      ? vf_load_as(w + at * att_dtype_bytes(dtype), dtype, columns - at)
                      : vf_set1(0.0f);
    }
}

/* h as an operand: rounded to dtype, then widened to float32. */
VF_INLINE void store_operands(operand *to, att_dtype dtype, vf values, int64_t count) {
    float rounded[VF_W];
    vf_store_as(rounded, dtype, values, VF_W);
    vf_store_as(to, ATT_F32, vf_load_as(rounded, dtype, VF_W), count);
}

#endif
