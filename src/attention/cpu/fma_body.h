/* fma_body.h: operands and weights of a tile whose products are fused multiply-adds.
 *
 * Everything is widened to float32 when it is packed: a word of panel_body.h is a float32. */
#ifndef ATT_CPU_MATMUL_BODY_H
#define ATT_CPU_MATMUL_BODY_H

#include <string.h>

enum { WORD_ELEMENTS = 1, PANEL_STRIPS = 8, TILE_KEYS = 128 };
#include "attention/cpu/panel_body.h"

VF_INLINE vf panel_multiply(vf left, vf right, vf sum) {
    return vf_muladd(left, right, sum);
}

/* The weights replace the scores. */
static inline const float *panel_weights(const tile *t, const strip *st, int64_t r, int64_t j) {
    return t->s[st->slot] + r * TILE_KEYS + j;
}
static size_t tile_p_bytes(const att_problem *p) {
    (void)p;
    return 0;
}

VF_INLINE void pack_q_as(const tile *t, const att_dtype dtype) {
    const int64_t d = t->job->p->d_qk, bytes = att_dtype_bytes(dtype);
    float *to = (float *)t->q;
    for (int64_t r = 0; r < t->task.rows; r++, to += d) {
        const char *from = tile_q_row(t, r);
        for (int64_t x = 0; x < d; x += VF_W)
            vf_store_as(to + x, ATT_F32, vf_load_as(from + x * bytes, dtype, d - x), d - x);
    }
    memset(to, 0, (size_t)(t->padded_rows - t->task.rows) * (size_t)d * sizeof(float));
}

VF_INLINE void pack_k_as(const tile *t, int64_t from, int64_t until, const att_dtype dtype) {
    const int64_t d = t->job->p->d_qk, bytes = att_dtype_bytes(dtype);
    const char **rows = t->now->rows_k;
    for (int64_t j = from; j < until; j += VF_W) {
        float *to = (float *)t->k + j / PANEL * PANEL * d + j % PANEL;
        for (int64_t x = 0; x < d; x += VF_W) {
            vf block[VF_W];
            for (int i = 0; i < VF_W; i++)
                block[i] = j + i < until ? vf_load_as(rows[j + i] + x * bytes, dtype, d - x)
                                         : vf_set1(0.0f);
            vf_transpose(block);
            for (int64_t i = 0; i < VF_W && x + i < d; i++)
                vf_store(to + (x + i) * PANEL, block[i]);
        }
    }
}

VF_INLINE void pack_v_as(const tile *t, int64_t from, int64_t until, const att_dtype dtype) {
    const int64_t d = t->job->p->d_v, bytes = att_dtype_bytes(dtype);
    const char **rows = t->now->rows_v;
    for (int64_t j = from; j < until; j++) {
        for (int64_t x = 0; x < tile_o_stride(t->job->p); x += VF_W) {
            float *to = (float *)t->v + x / PANEL * PANEL * TILE_KEYS + j * PANEL + x % PANEL;
            vf_store(to, x < d ? vf_load_as(rows[j] + x * bytes, dtype, d - x) : vf_set1(0.0f));
        }
    }
}

VF_INLINE void tile_weigh(const tile *t, row_state *row, const strip *st, int64_t r,
                          int64_t from, int64_t to, product *between, int64_t steps) {
    float *s = t->s[st->slot] + r * TILE_KEYS;
    product_steps(between, steps);
    keep_max(row, s, from, to, t->factor, t->o + (st->row0 + r) * t->o_stride, t->o_stride);
    weigh_row(row, s, from, to, t->factor, 5, store_in_place, s);
}

#endif
