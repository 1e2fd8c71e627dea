/* moe_ref_weights.c: the locations of gate, up and the second product of an expert. */
#include "moe/ref/moe_ref_weights.h"

#include "base/dtype.h"

bool att_moe_ref_is_gated(const att_moe_problem *p) {
    switch (p->activation) {
    case ATT_MOE_SWIGLU:
    case ATT_MOE_GEGLU:
    case ATT_MOE_GEGLU_TANH:
    case ATT_MOE_SWIGLU_CLAMPED:
        return true;
    default:
        return false;
    }
}

/* Output n of the matrix is stored output offset + n * step. */
static att_moe_ref_matrix stored(const att_moe_problem *p, const void *base,
                                 const att_moe_strides *s, int64_t e, int64_t offset,
                                 int64_t step, int64_t outputs, int64_t depth) {
    const bool transposed = p->flags & ATT_MOE_TRANSPOSED;
    const int64_t one = transposed ? 1 : s->row;
    return (att_moe_ref_matrix){.base = base,
                                .dtype = p->dtype,
                                .first = e * s->expert + offset * one,
                                .output_step = step * one,
                                .depth_step = transposed ? s->row : 1,
                                .outputs = outputs,
                                .depth = depth};
}

static void add_bias(att_moe_ref_matrix *m, const att_moe_problem *p, uint32_t feature,
                     const void *bias, int64_t first, int64_t step) {
    if (!(p->features & feature))
        return;
    m->bias = bias;
    m->dtype_bias = p->dtype_bias;
    m->bias_first = first;
    m->bias_step = step;
}

att_moe_ref_matrix att_moe_ref_gate(const att_moe_problem *p, const att_moe_args *a,
                                    int64_t e) {
    const int64_t step = att_moe_ref_is_gated(p) && p->gate == ATT_MOE_INTERLEAVED ? 2 : 1;
    att_moe_ref_matrix m = stored(p, a->w1, &p->w1, e, 0, step, p->inner, p->hidden);
    add_bias(&m, p, ATT_MOE_BIAS1, a->b1, e * p->b1_expert, step);
    return m;
}

att_moe_ref_matrix att_moe_ref_up(const att_moe_problem *p, const att_moe_args *a, int64_t e) {
    if (p->gate == ATT_MOE_APART) {
        att_moe_ref_matrix m = stored(p, a->w3, &p->w3, e, 0, 1, p->inner, p->hidden);
        add_bias(&m, p, ATT_MOE_BIAS1, a->b3, e * p->b3_expert, 1);
        return m;
    }
    const bool by_turns = p->gate == ATT_MOE_INTERLEAVED;
    const int64_t offset = by_turns ? 1 : p->inner, step = by_turns ? 2 : 1;
    att_moe_ref_matrix m = stored(p, a->w1, &p->w1, e, offset, step, p->inner, p->hidden);
    add_bias(&m, p, ATT_MOE_BIAS1, a->b1, e * p->b1_expert + offset, step);
    return m;
}

att_moe_ref_matrix att_moe_ref_down(const att_moe_problem *p, const att_moe_args *a,
                                    int64_t e) {
    att_moe_ref_matrix m = stored(p, a->w2, &p->w2, e, 0, 1, p->hidden, p->inner);
    add_bias(&m, p, ATT_MOE_BIAS2, a->b2, e * p->b2_expert, 1);
    return m;
}

static void load(const att_moe_ref_matrix *m, int64_t first, int64_t step, int64_t count,
                 float *row) {
    if (step == 1)
        att_load_row(row, m->base, m->dtype, first, count);
    for (int64_t i = 0; step != 1 && i < count; i++)
        row[i] = att_load(m->base, m->dtype, first + i * step);
}

void att_moe_ref_load(const att_moe_ref_matrix *m, int64_t output, float *row) {
    load(m, m->first + output * m->output_step, m->depth_step, m->depth, row);
}

void att_moe_ref_load_depth(const att_moe_ref_matrix *m, int64_t depth, float *row) {
    load(m, m->first + depth * m->depth_step, m->output_step, m->outputs, row);
}

float att_moe_ref_bias(const att_moe_ref_matrix *m, int64_t n) {
    return m->bias ? att_load(m->bias, m->dtype_bias, m->bias_first + n * m->bias_step) : 0.0f;
}
