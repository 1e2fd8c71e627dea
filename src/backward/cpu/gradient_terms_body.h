/* gradient_terms_body.h: from a score and d_p to the weight and the derivatives, over the vf of
 * the including file. */
#ifndef ATT_BACKWARD_CPU_GRADIENT_TERMS_BODY_H
#define ATT_BACKWARD_CPU_GRADIENT_TERMS_BODY_H

#include "attention/cpu/bias_body.h"
#include "backward/cpu/gradient_tile.h"
#include "cpu/math_body.h"

/* One row of a strip. Keys are counted from the chunk's first. */
typedef struct row_terms {
    const float *s, *d_p;
    float *d_s;     /* also store the derivatives by the final score here, or NULL */
    int64_t lo, hi; /* keys that the row sees */
    vf lse, delta;
    int64_t diagonal; /* of the row */
    int64_t bias;     /* element offset of key 0 */
    float slope;
    vf slope_sum;
} row_terms;

/* Are scores more than scale * dot(q, k)? */
static inline bool scores_are_shaped(const att_problem *p) {
    return p->softcap > 0.0f || (p->features & (ATT_ALIBI | ATT_BIAS));
}

static row_terms row_terms_of(const gradient_tile *t, int64_t r, const float *s,
                              const float *d_p) {
    const att_problem *p = t->job->base.p;
    const att_row_fact *fact = &t->facts[tile_row(t, r)];
    row_terms row = {.s = s,
                     .d_p = d_p,
                     .d_s = t->scores_only ? t->d_s + r * CHUNK_KEYS : NULL,
                     .lo = fact->lo - t->j0,
                     .hi = fact->hi - t->j0,
                     .lse = vf_set1(fact->lse_fast),
                     .delta = vf_set1(fact->delta * t->job->d_o_scale),
                     .slope_sum = vf_set1(0.0f)};
    if (t->shaped) {
        const att_cpu_query q = att_cpu_query_of(&t->job->base, &t->s, tile_row(t, r));
        row.diagonal = q.position + t->s.shift - t->j0;
        if (p->features & ATT_ALIBI)
            row.slope = att_cpu_slope(&t->job->base, t->s.batch, q.head);
        if (p->features & ATT_BIAS)
            row.bias = att_cpu_bias_offset(p, &t->s, q.head, q.position) + t->j0 * p->bias.col;
    }
    return row;
}

/* Weights of the keys x .. and their derivatives with respect to scale * dot(q, k). Keys that
 * the row does not see get zeros, whatever their K and V hold. `shaped` and `degree` (of exp2)
 * are constants once inlined. */
VF_INLINE void terms_at(const gradient_tile *t, row_terms *row, int64_t x, const bool shaped,
                        const int degree, vf *weight, vf *derivative) {
    const att_problem *p = t->job->base.p;
    const vf s = vf_load(row->s + x), zero = vf_set1(0.0f);
    const bool cut = x < row->lo || x + VF_W > row->hi;
    if (x >= row->hi || x + VF_W <= row->lo) {
        *weight = *derivative = zero;
        if (row->d_s)
            vf_store(row->d_s + x, zero);
        return;
    }
    vf logit, slack = vf_set1(1.0f), distance = zero, bias = zero;
    if (shaped) {
        logit = vf_mul(s, vf_set1(p->scale));
        if (p->softcap > 0.0f) {
            const vf share = vf_tanh(vf_div(logit, vf_set1(p->softcap)));
            logit = vf_mul(vf_set1(p->softcap), share);
            slack = vf_sub(slack, vf_mul(share, share));
        }
        if (p->features & ATT_ALIBI) {
            distance = vf_abs(vf_sub(vf_set1((float)(row->diagonal - x)), vf_iota()));
            logit = vf_fma(vf_set1(-row->slope), distance, logit);
        }
        if (p->features & ATT_BIAS) {
            bias = bias_load(p, t->job->base.a->bias, row->bias, x, row->hi - x);
            logit = vf_add(logit, bias);
        }
        logit = vf_sub(logit, row->lse);
    } else {
        logit = vf_sub(vf_mul(s, vf_set1(p->scale)), row->lse);
    }
    vf w = vf_exp2(vf_mul(logit, vf_set1(LOG2E)), degree);
    vf d = vf_mul(w, vf_sub(vf_load(row->d_p + x), row->delta));
    if (cut) {
        const int64_t lo = att_max(row->lo - x, 0), hi = att_max(row->hi - x, 0);
        w = vf_between(w, lo, hi, 0.0f);
        d = vf_between(d, lo, hi, 0.0f);
    }
    if (shaped && p->features & ATT_BIAS) { /* -inf hides a key */
        w = vf_unless_at_most(w, bias, -INFINITY);
        d = vf_unless_at_most(d, bias, -INFINITY);
    }
    if (row->d_s)
        vf_store(row->d_s + x, d);
    if (shaped) {
        row->slope_sum = vf_muladd(d, distance, row->slope_sum);
        d = vf_mul(d, slack);
    }
    *weight = w;
    *derivative = d;
}

/* Multiply the block's rows of d_o, whose addresses must be set, by d_o_scale. */
static void scale_d_o(const gradient_tile *t) {
    const att_problem *p = t->job->base.p;
    const int64_t bytes = p->d_v * att_dtype_bytes(p->dtype_o);
    for (int64_t r = 0; t->job->d_o_scale != 1.0f && r < t->rows; r++) {
        char *to = t->scaled + r * bytes;
        for (int64_t x = 0; x < p->d_v; x++)
            att_store(to, p->dtype_o, x,
                      att_load(t->addresses[r], p->dtype_o, x) * t->job->d_o_scale);
        t->addresses[r] = to;
    }
}

/* Store a row's sum of d_s * distance. */
static inline void row_terms_end(const gradient_tile *t, const row_terms *row, int64_t r) {
    if (t->job->base.p->gradients & ATT_D_ALIBI && !t->scores_only)
        t->slopes[r] = (double)vf_reduce_add(row->slope_sum) / (double)t->job->d_o_scale;
}

#endif
