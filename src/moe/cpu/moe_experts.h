/* moe_experts.h: the locations of the weights and biases of an expert, from a column on. */
#ifndef ATT_MOE_CPU_EXPERTS_H
#define ATT_MOE_CPU_EXPERTS_H

#include "base/dtype.h"
#include "moe/moe.h"

/* Some columns of a product of one expert. */
typedef struct att_moe_matrix {
    const char *w;    /* the first weight of the first column */
    int64_t step;     /* bytes between columns or, if transposed, between depths */
    const char *bias; /* of the first column; NULL: none, or of the second product */
    int64_t bias_step;
    att_dtype dtype_bias;
} att_moe_matrix;

/* Are gate and up interleaved along the last axis? They are then multiplied together. */
static inline bool att_moe_shares_columns(const att_moe_problem *p) {
    return att_moe_is_gated(p) && p->gate == ATT_MOE_INTERLEAVED &&
           p->flags & ATT_MOE_TRANSPOSED;
}

/* Columns from `first` on, `turns` stored columns apart; `rows` rows are stored. The stride of
 * a dimension of size 1 may be anything. */
static inline att_moe_matrix att_moe_columns_of(const att_moe_problem *p, const void *w,
                                                const att_moe_strides *s, int64_t rows,
                                                int64_t e, int64_t first, int64_t turns) {
    const bool transposed = p->flags & ATT_MOE_TRANSPOSED;
    const int64_t bytes = att_dtype_bytes(p->dtype), row = rows > 1 ? s->row : 0;
    const int64_t at = e * s->expert + first * (transposed ? 1 : row);
    return (att_moe_matrix){.w = (const char *)w + at * bytes,
                            .step = (transposed ? 1 : turns) * row * bytes};
}

/* From column `first` of expert e on. Does nothing if there is no bias, whose stride may then
 * be anything. */
static inline void att_moe_add_bias(att_moe_matrix *m, const att_moe_problem *p,
                                    const void *bias, int64_t stride, int64_t e, int64_t first,
                                    int64_t turns) {
    if (!bias)
        return;
    m->bias = (const char *)bias + (e * stride + first) * att_dtype_bytes(p->dtype_bias);
    m->bias_step = turns;
    m->dtype_bias = p->dtype_bias;
}

/* For local expert e, from column `begin` of h or y on. */
static inline att_moe_matrix att_moe_gate_of(const att_moe_problem *p, const att_moe_args *a,
                                             int64_t e, int64_t begin) {
    const int64_t turns = att_moe_is_gated(p) && p->gate == ATT_MOE_INTERLEAVED ? 2 : 1;
    const int64_t rows = p->flags & ATT_MOE_TRANSPOSED ? p->hidden : att_moe_w1_rows(p);
    att_moe_matrix m = att_moe_columns_of(p, a->w1, &p->w1, rows, e, turns * begin, turns);
    att_moe_add_bias(&m, p, a->b1, p->b1_expert, e, turns * begin, turns);
    return m;
}

/* Empty for an activation without a gate. */
static inline att_moe_matrix att_moe_up_of(const att_moe_problem *p, const att_moe_args *a,
                                           int64_t e, int64_t begin) {
    if (!att_moe_is_gated(p))
        return (att_moe_matrix){.w = NULL};
    const bool apart = p->gate == ATT_MOE_APART, by_turns = p->gate == ATT_MOE_INTERLEAVED;
    const int64_t turns = by_turns ? 2 : 1;
    const int64_t first = apart ? begin : by_turns ? 2 * begin + 1 : p->inner + begin;
    const int64_t rows = p->flags & ATT_MOE_TRANSPOSED ? p->hidden : att_moe_w1_rows(p);
    att_moe_matrix m = att_moe_columns_of(p, apart ? a->w3 : a->w1, apart ? &p->w3 : &p->w1,
                                          rows, e, first, turns);
    att_moe_add_bias(&m, p, apart ? a->b3 : a->b1, apart ? p->b3_expert : p->b1_expert, e,
                     first, turns);
    return m;
}

static inline att_moe_matrix att_moe_down_of(const att_moe_problem *p, const att_moe_args *a,
                                             int64_t e, int64_t begin) {
    const int64_t rows = p->flags & ATT_MOE_TRANSPOSED ? p->inner : p->hidden;
    return att_moe_columns_of(p, a->w2, &p->w2, rows, e, begin, 1);
}

/* Load the biases of `columns` columns, 0 if there are none. */
static inline void att_moe_load_bias(const att_moe_matrix *m, int64_t columns, float *to) {
    for (int64_t c = 0; c < columns; c++)
        to[c] = m->bias ? att_load(m->bias, m->dtype_bias, c * m->bias_step) : 0.0f;
}

#endif
