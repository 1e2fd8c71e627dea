/* gradient_bf16_body.h: operands of a tile of bfloat16 whose products are dot products of pairs.
 *
 * Weights and derivatives are rounded to bfloat16: as pairs of two rows for d_v and d_k, which sum over rows, and the derivatives as
 * pairs of two keys for d_q, which sums over keys. S and d_p are kept for a strip alone. */
#ifndef ATT_BACKWARD_CPU_GRADIENT_PRODUCTS_BODY_H
#define ATT_BACKWARD_CPU_GRADIENT_PRODUCTS_BODY_H

#include <string.h>

#include "backward/cpu/addresses.h"
#include "backward/cpu/gradient_tile.h"
#include "cpu/bf16_pairs.h"
#include "cpu/math_body.h"

enum { WORD_ELEMENTS = 2, BLOCK_ROWS = 96, CHUNK_KEYS = 384 };
enum { ELEMENT_BYTES = 2, PRODUCTS_FLUSH = 1 };

/* Of exp2: enough for weights of bfloat16; d_bias and d_alibi are of derivatives that are not rounded. */
enum { DEGREE_ROUNDED = 3, DEGREE_EXACT = 5 };

#include "backward/cpu/gradient_terms_body.h"
#include "backward/cpu/huge_d_o.h"

VF_INLINE vf word_multiply(vf left, vf right, vf sum) {
    return vf_dot_pairs(left, right, sum);
}

VF_INLINE vf load_words(const char *row, int64_t x, int64_t d, const att_dtype dtype) {
    (void)dtype; /* bfloat16: serves() refuses the others */
    return vf_load_pairs(row + x * ELEMENT_BYTES, d - x);
}

VF_INLINE void load_word_rows(const char **rows, int64_t count, int64_t x, int64_t d,
                              const att_dtype dtype, vf columns[2]) {
    vf row[2];
    for (int i = 0; i < 2; i++)
        row[i] = count > i && x < d ? vf_finite_pairs(load_words(rows[i], x, d, dtype))
                                    : vf_set1(0.0f);
    vf_zip_pairs(row[0], row[1], &columns[0], &columns[1]);
}

static void weights_map(gradient_tile *t, char *base, size_t *used);
static float *strip_s(const gradient_tile *t, int64_t row);
static float *strip_d_p(const gradient_tile *t, int64_t row);
static const float *d_scores_row(const gradient_tile *t, int64_t row);
enum { LEFT_STRIDE = CHUNK_KEYS / WORD_ELEMENTS + 8 };

#include "backward/cpu/gradient_panel_body.h"

static void weights_map(gradient_tile *t, char *base, size_t *used) {
    t->scores = take(base, used, floats(STRIP_ROWS * KEYS_STRIDE));
    t->d_weights = take(base, used, floats(STRIP_ROWS * KEYS_STRIDE));
    t->weights = take(base, used, floats(words_of(BLOCK_ROWS) * KEYS_STRIDE));
    t->d_scores = take(base, used, floats(words_of(BLOCK_ROWS) * KEYS_STRIDE));
    t->d_scores_left = take(base, used, floats(BLOCK_ROWS * LEFT_STRIDE));
}

static float *strip_s(const gradient_tile *t, int64_t row) {
    return t->scores + row % STRIP_ROWS * KEYS_STRIDE;
}
static float *strip_d_p(const gradient_tile *t, int64_t row) {
    return t->d_weights + row % STRIP_ROWS * KEYS_STRIDE;
}
static const float *d_scores_row(const gradient_tile *t, int64_t row) {
    return (const float *)(const void *)t->d_scores_left + row * LEFT_STRIDE;
}

/* Words of rows r and r + 1 in the operands that sum over rows. */
static float *row_pair(char *operand, int64_t r) {
    return (float *)(void *)operand + r / 2 * KEYS_STRIDE;
}

static void clear_rows(const gradient_tile *t, int64_t r, att_cpu_interval keys) {
    const size_t bytes = keys.hi > keys.lo ? floats(keys.hi - keys.lo) : 0;
    memset(row_pair(t->weights, r) + keys.lo, 0, bytes);
    memset(row_pair(t->d_scores, r) + keys.lo, 0, bytes);
}

VF_INLINE void weigh_pair_as(const gradient_tile *t, int64_t r, att_cpu_interval keys,
                             const bool shaped) {
    const bool both = r + 1 < t->rows;
    const int64_t below = both ? r + 1 : r;
    float *weights = row_pair(t->weights, r), *d_scores = row_pair(t->d_scores, r);
    char *left = t->d_scores_left + r * LEFT_STRIDE * (int64_t)sizeof(float);
    row_terms row[2] = {row_terms_of(t, r, strip_s(t, r), strip_d_p(t, r)),
                        row_terms_of(t, below, strip_s(t, below), strip_d_p(t, below))};
    give_up_huge_d_o(t, r, &row[0]);
    give_up_huge_d_o(t, below, &row[1]);
    if (!both) { /* padding */
        row[1].lo = row[1].hi = 0;
        row[1].d_s = NULL;
    }
    for (int64_t x = keys.lo; x < keys.hi; x += 2 * VF_W) {
        vf w[2][2], d[2][2];
        for (int i = 0; i < 2; i++)
            for (int h = 0; h < 2; h++)
                terms_at(t, &row[i], x + h * VF_W, shaped,
                         shaped ? DEGREE_EXACT : DEGREE_ROUNDED, &w[i][h], &d[i][h]);
        for (int h = 0; h < 2; h++) {
            vf_store(weights + x + h * VF_W, vf_round_pairs(w[0][h], w[1][h]));
            vf_store(d_scores + x + h * VF_W, vf_round_pairs(d[0][h], d[1][h]));
        }
        for (int i = 0; i < 2; i++)
            vf_store_pairs(left + i * LEFT_STRIDE * (int64_t)sizeof(float) + x * ELEMENT_BYTES,
                           d[i][0], d[i][1]);
    }
    row_terms_end(t, &row[0], r);
    if (both)
        row_terms_end(t, &row[1], below);
}

static void weigh_rows(const gradient_tile *t, int64_t r, att_cpu_interval keys) {
    if (t->shaped)
        weigh_pair_as(t, r, keys, true);
    else
        weigh_pair_as(t, r, keys, false);
}

#endif
