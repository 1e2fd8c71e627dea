/* bf16_body.h: operands and weights of a bfloat16 tile whose products are dot products of
 * pairs.
 *
 * A word of panel_body.h is a pair: two neighbours of d_qk in Q and K, two keys in P and V. Q
 * and K are the caller's bits. The weights are rounded to bfloat16; their sums are not. */
#ifndef ATT_CPU_MATMUL_BODY_H
#define ATT_CPU_MATMUL_BODY_H

#include <string.h>

#include "cpu/bf16_pairs.h"

/* Twice the strips and keys of the FMA kernels: products take half as long, but packing and
 * per-block overhead do not. A panel of V has the same size. */
enum { WORD_ELEMENTS = 2, PANEL_STRIPS = 16, TILE_KEYS = 256 };
#include "attention/cpu/panel_body.h"

#include "attention/cpu/known_top_body.h"

enum { ELEMENT_BYTES = 2, VECTOR_ELEMENTS = 2 * VF_W };

VF_INLINE vf panel_multiply(vf left, vf right, vf sum) {
    return vf_dot_pairs(left, right, sum);
}

static inline const float *panel_weights(const tile *t, const strip *st, int64_t r, int64_t j) {
    return (const float *)t->p[st->slot] + r * KEY_WORDS + j / WORD_ELEMENTS;
}
static size_t tile_p_bytes(const att_problem *p) {
    (void)p;
    return sizeof(float) * TILE_STRIP * KEY_WORDS;
}

VF_INLINE void pack_q_as(const tile *t, const att_dtype dtype) {
    (void)dtype; /* bfloat16; serves_fwd() refuses the others */
    const int64_t d = t->job->p->d_qk, words = words_of(d);
    float *to = (float *)t->q;
    for (int64_t r = 0; r < t->task.rows; r++, to += words) {
        const char *from = tile_q_row(t, r);
        for (int64_t x = 0; x < d; x += VECTOR_ELEMENTS)
            vf_store_as(to + words_of(x), ATT_F32,
                        vf_load_pairs(from + x * ELEMENT_BYTES, d - x), words - words_of(x));
    }
    memset(to, 0, (size_t)((t->padded_rows - t->task.rows) * words) * sizeof *to);
}

VF_INLINE void pack_k_as(const tile *t, int64_t from, int64_t until, const att_dtype dtype) {
    (void)dtype;
    const int64_t d = t->job->p->d_qk, words = words_of(d);
    const char **rows = t->now->rows_k;
    for (int64_t j = from; j < until; j += VF_W) {
        float *to = (float *)t->k + j / PANEL * PANEL * words + j % PANEL;
        for (int64_t x = 0; x < d; x += VECTOR_ELEMENTS) {
            vf block[VF_W];
            for (int i = 0; i < VF_W; i++)
                block[i] = j + i < until ? vf_load_pairs(rows[j + i] + x * ELEMENT_BYTES, d - x)
                                         : vf_set1(0.0f);
            vf_transpose(block);
            const int64_t first = words_of(x);
            for (int64_t i = 0; i < VF_W && first + i < words; i++)
                vf_store(to + (first + i) * PANEL, block[i]);
        }
    }
}

/* Elements x .. of row j; zeros past the row and past the keys of the block. */
VF_INLINE vf load_v(const char **rows, int64_t j, int64_t until, int64_t x, int64_t d) {
    return j < until && x < d ? vf_load_pairs(rows[j] + x * ELEMENT_BYTES, d - x)
                              : vf_set1(0.0f);
}

VF_INLINE void pack_v_as(const tile *t, int64_t from, int64_t until, const att_dtype dtype) {
    (void)dtype;
    const int64_t d = t->job->p->d_v;
    const char **rows = t->now->rows_v;
    for (int64_t j = from; j < until; j += WORD_ELEMENTS) {
        for (int64_t x = 0; x < tile_o_stride(t->job->p); x += VECTOR_ELEMENTS) {
            float *to = (float *)t->v + x / PANEL * PANEL * KEY_WORDS +
                        j / WORD_ELEMENTS * PANEL + x % PANEL;
            vf low, high;
            vf_zip_pairs(load_v(rows, j, until, x, d), load_v(rows, j + 1, until, x, d), &low,
                         &high);
            vf_store(to, low);
            vf_store(to + VF_W, high);
        }
    }
}

static inline void store_weight_pairs(void *row, int64_t x, vf p0, vf p1) {
    vf_store_pairs((char *)row + x * ELEMENT_BYTES, p0, p1);
}

/* Weigh a row with its current maximum. Returns false if the maximum must be raised first, or
 * the offset is too large. */
VF_INLINE bool weigh_by_known_top(const tile *t, row_state *row, const float *s, int64_t from,
                                  int64_t to, void *row_to) {
    const float offset = -row->base * t->factor;
    if (row->top == -INFINITY || !(fabsf(offset) < OFFSET_MOST))
        return false;
    const vf f = vf_set1(t->factor), o = vf_set1(offset);
    vf sum0 = vf_set1(0.0f), sum1 = vf_set1(0.0f);
    for (int64_t x = from; x < to; x += 2 * VF_W) {
        const vf p0 = vf_exp2(vf_fma(vf_load(s + x), f, o), BF16_DEGREE);
        const vf p1 = vf_exp2(vf_fma(vf_load(s + x + VF_W), f, o), BF16_DEGREE);
        sum0 = vf_add(sum0, p0);
        sum1 = vf_add(sum1, p1);
        store_weight_pairs(row_to, x, p0, p1);
    }
    const vf sum = vf_add(sum0, sum1);
    if (!vf_all_at_most(sum, LANE_SUM_MOST))
        return false;
    vf_store(row->sum, vf_add(vf_load(row->sum), sum));
    return true;
}

VF_INLINE void tile_weigh(const tile *t, row_state *row, const strip *st, int64_t r,
                          int64_t from, int64_t to, product *between, int64_t steps) {
    const float *s = t->s[st->slot] + r * TILE_KEYS;
    void *row_to = t->p[st->slot] + r * TILE_KEYS * ELEMENT_BYTES;
    const bool fine = weights_are_fine(t->job->p);
    product_steps(between, steps);
    if (!fine && __builtin_expect(weigh_by_known_top(t, row, s, from, to, row_to), 1))
        return;
    keep_max(row, s, from, to, t->factor, t->o + (st->row0 + r) * t->o_stride, t->o_stride);
    if (fine)
        weigh_row(row, s, from, to, t->factor, 5, store_weight_pairs, row_to);
    else
        weigh_row(row, s, from, to, t->factor, BF16_DEGREE, store_weight_pairs, row_to);
}

#endif
