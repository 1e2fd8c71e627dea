/* gradient_fma_body.h: operands of a tile whose products are fused multiply-adds.
 *
 * Everything is widened to float32 when it is packed. Weights and derivatives replace S and
 * d_p, and are used directly as the left operands of the following products. */
#ifndef ATT_BACKWARD_CPU_GRADIENT_PRODUCTS_BODY_H
#define ATT_BACKWARD_CPU_GRADIENT_PRODUCTS_BODY_H

#include <float.h>
#include <string.h>

#include "backward/cpu/addresses.h"
#include "backward/cpu/gradient_tile.h"
#include "cpu/math_body.h"

enum { PRODUCTS_FLUSH = 0, WORD_ELEMENTS = 1, BLOCK_ROWS = 72, CHUNK_KEYS = 384 };

#include "backward/cpu/gradient_terms_body.h"

VF_INLINE vf word_multiply(vf left, vf right, vf sum) {
    return vf_muladd(left, right, sum);
}

VF_INLINE vf load_words(const char *row, int64_t x, int64_t d, const att_dtype dtype) {
    return vf_load_as(row + x * att_dtype_bytes(dtype), dtype, d - x);
}

VF_INLINE void load_word_rows(const char **rows, int64_t count, int64_t x, int64_t d,
                              const att_dtype dtype, vf columns[1]) {
    if (count <= 0 || x >= d) {
        columns[0] = vf_set1(0.0f);
        return;
    }
    const vf raw = load_words(rows[0], x, d, dtype);
    columns[0] = vf_min(vf_max(raw, vf_set1(-FLT_MAX)), vf_set1(FLT_MAX)); /* takes b if NaN */
}

static void weights_map(gradient_tile *t, char *base, size_t *used);
static float *strip_s(const gradient_tile *t, int64_t row);
static float *strip_d_p(const gradient_tile *t, int64_t row);
static const float *d_scores_row(const gradient_tile *t, int64_t row);
#define LEFT_STRIDE KEYS_STRIDE

#include "backward/cpu/gradient_panel_body.h"

static void weights_map(gradient_tile *t, char *base, size_t *used) {
    t->scores = take(base, used, floats(BLOCK_ROWS * KEYS_STRIDE));
    t->d_weights = take(base, used, floats(BLOCK_ROWS * KEYS_STRIDE));
    t->weights = (char *)t->scores;
    t->d_scores = t->d_scores_left = (char *)t->d_weights;
}

static float *strip_s(const gradient_tile *t, int64_t row) {
    return t->scores + row * KEYS_STRIDE;
}
static float *strip_d_p(const gradient_tile *t, int64_t row) {
    return t->d_weights + row * KEYS_STRIDE;
}
static const float *d_scores_row(const gradient_tile *t, int64_t row) {
    return t->d_weights + row * KEYS_STRIDE;
}

/* Store zeros for these keys in row r of the block. */
static void clear_rows(const gradient_tile *t, int64_t r, att_cpu_interval keys) {
    for (int64_t x = keys.lo; x < keys.hi; x += VF_W) {
        vf_store(strip_s(t, r) + x, vf_set1(0.0f));
        vf_store(strip_d_p(t, r) + x, vf_set1(0.0f));
    }
}

VF_INLINE void weigh_row_as(const gradient_tile *t, int64_t r, att_cpu_interval keys,
                            const bool shaped) {
    float *s = strip_s(t, r), *d_p = strip_d_p(t, r);
    row_terms row = row_terms_of(t, r, s, d_p);
    for (int64_t x = keys.lo; x < keys.hi; x += VF_W) {
        vf weight, derivative;
        terms_at(t, &row, x, shaped, 5, &weight, &derivative);
        vf_store(s + x, weight);
        vf_store(d_p + x, derivative);
    }
    row_terms_end(t, &row, r);
}

static void weigh_rows(const gradient_tile *t, int64_t r, att_cpu_interval keys) {
    if (t->shaped)
        weigh_row_as(t, r, keys, true);
    else
        weigh_row_as(t, r, keys, false);
}

#endif
