/* softmax_body.h: turns a row of scores into a row of weights, over the vf of the including
 * file.
 *
 * Logits are in the log2 domain, so that exp is a plain exp2. The running maximum is raised
 * only when a block exceeds it by more than LAZY. Weights then stay below 2^LAZY, which is
 * harmless for float32 sums, and the accumulator is almost never rescaled after the first
 * block. */
#ifndef ATT_CPU_SOFTMAX_BODY_H
#define ATT_CPU_SOFTMAX_BODY_H

#include <math.h>
#include <stdbool.h>

#include "attention/cpu/bias_body.h"
#include "attention/cpu/job.h"
#include "cpu/math_body.h"

#define LAZY 8.0f

/* True if logits are more than scores times a positive factor. */
static inline bool logits_are_shaped(const att_problem *p) {
    return !(p->scale > 0.0f) || p->softcap > 0.0f || (p->features & (ATT_ALIBI | ATT_BIAS));
}

/* Factors from a row of scores to logits, and to log2-domain logits. */
static inline float natural_factor(const att_problem *p) {
    return logits_are_shaped(p) ? 1.0f : p->scale;
}
static inline float logit_factor(const att_problem *p) {
    return natural_factor(p) * LOG2E;
}

/* What turns a row of scores into logits. */
typedef struct row_shape {
    const att_problem *p;
    const void *bias;
    int64_t bias_row; /* offset of its element for key 0 */
    int64_t j0;       /* the key of s[0] */
    float position;   /* of the row, counted from that key */
    float slope;
} row_shape;

/* The bias of a vector of keys that all exist and lie side by side. */
VF_INLINE vf whole_bias(const row_shape *row, int64_t x, const att_dtype type) {
    const char *first =
        (const char *)row->bias + (row->bias_row + row->j0 + x) * att_dtype_bytes(type);
    return type == ATT_BOOL8 ? vf_load_hiding(first, VF_W) : vf_load_as(first, type, VF_W);
}

/* Scale s[lo..hi) and add a bias of `type` whose keys lie side by side. */
VF_INLINE void add_bias(const row_shape *row, float *s, int64_t lo, int64_t hi,
                        const att_dtype type) {
    const vf scale = vf_set1(row->p->scale);
    int64_t x = lo / VF_W * VF_W;
    for (; x + VF_W <= hi; x += VF_W)
        vf_store(s + x, vf_add(vf_mul(vf_load(s + x), scale), whole_bias(row, x, type)));
    if (x < hi) {
        const vf bias = bias_load(row->p, row->bias, row->bias_row, row->j0 + x, hi - x);
        vf_store(s + x, vf_add(vf_mul(vf_load(s + x), scale), bias));
    }
}

/* Scale and bias alone, the most common case. */
static void shape_by_bias(const row_shape *row, float *s, int64_t lo, int64_t hi) {
    switch (row->p->bias_dtype) {
    case ATT_F32:
        add_bias(row, s, lo, hi, ATT_F32);
        break;
    case ATT_F16:
        add_bias(row, s, lo, hi, ATT_F16);
        break;
    case ATT_BF16:
        add_bias(row, s, lo, hi, ATT_BF16);
        break;
    case ATT_BOOL8:
        add_bias(row, s, lo, hi, ATT_BOOL8);
        break;
    }
}

/* Vectors of s[lo..hi): scale, softcap, ALiBi, bias; one specialisation per set of features. */
VF_INLINE void shape_vectors(const row_shape *row, float *s, int64_t lo, int64_t hi,
                             const bool capped, const bool sloped, const bool biased) {
    const att_problem *p = row->p;
    const vf scale = vf_set1(p->scale), slope = vf_set1(-row->slope);
    const vf cap = vf_set1(p->softcap), share = vf_set1(1.0f / p->softcap);
    for (int64_t x = lo / VF_W * VF_W; x < hi; x += VF_W) {
        vf t = vf_mul(vf_load(s + x), scale);
        if (capped)
            t = vf_mul(cap, vf_tanh(vf_mul(t, share)));
        if (sloped) {
            const vf distance = vf_abs(vf_sub(vf_set1(row->position - (float)x), vf_iota()));
            t = vf_fma(slope, distance, t);
        }
        if (biased)
            t = vf_add(t, bias_load(p, row->bias, row->bias_row, row->j0 + x, hi - x));
        vf_store(s + x, t);
    }
}

/* Turn scores s[lo..hi) of keys j0+lo .. j0+hi into logits. */
static void shape_row(const att_cpu_job *job, const att_cpu_sequence *q, int64_t head,
                      int64_t i, float *s, int64_t j0, int64_t lo, int64_t hi) {
    const att_problem *p = job->p;
    const bool capped = p->softcap > 0.0f, biased = p->features & ATT_BIAS;
    const row_shape row = {
        .p = p,
        .bias = job->a->bias,
        .bias_row = biased ? att_cpu_bias_offset(p, q, head, i) : 0,
        .j0 = j0,
        .position = (float)(i + q->shift - j0),
        .slope = p->features & ATT_ALIBI ? att_cpu_slope(job, q->batch, head) : 0.0f,
    };
    const bool sloped = row.slope != 0.0f;
    if (capped && (sloped || biased))
        shape_vectors(&row, s, lo, hi, true, sloped, biased);
    else if (capped)
        shape_vectors(&row, s, lo, hi, true, false, false);
    else if (sloped && biased)
        shape_vectors(&row, s, lo, hi, false, true, true);
    else if (sloped)
        shape_vectors(&row, s, lo, hi, false, true, false);
    else if (biased && p->bias.col == 1)
        shape_by_bias(&row, s, lo, hi);
    else if (biased)
        shape_vectors(&row, s, lo, hi, false, false, true);
    else
        shape_vectors(&row, s, lo, hi, false, false, false);
}

/* Hide the elements outside [lo, hi) of the vector at x. */
static inline void mask_vector(float *s, int64_t x, int64_t lo, int64_t hi) {
    const vf kept =
        vf_between(vf_load(s + x), att_max(lo - x, 0), att_max(hi - x, 0), -INFINITY);
    vf_store(s + x, kept);
}

/* Hide the keys outside [lo, hi) in the vectors in [from, to), both multiples of VF_W. Only
 * vectors that contain such keys are touched. */
static inline void mask_row(float *s, int64_t from, int64_t to, int64_t lo, int64_t hi) {
    int64_t x = from;
    for (; x < to && x < lo; x += VF_W)
        mask_vector(s, x, lo, hi);
    for (x = att_max(x, hi > 0 ? hi / VF_W * VF_W : 0); x < to; x += VF_W)
        mask_vector(s, x, lo, hi);
}

/* The running state of a row. The sum stays spread over the lanes until the row is finished. */
typedef struct row_state {
    float sum[VF_W];
    float top;   /* maximum of the scores, lazily raised; -inf before the first visible key */
    float base;  /* top, or 0 before; it is subtracted, so that top's weight is exactly 1 */
    float bound; /* a score above this, LAZY above top in the log2 domain, raises top */
} row_state;

static inline void row_start(row_state *row) {
    vf_store(row->sum, vf_set1(0.0f));
    row->top = row->bound = -INFINITY;
    row->base = 0.0f;
}

static inline float row_sum(const row_state *row) {
    return vf_reduce_add(vf_load(row->sum));
}

/* The largest of s[from..to) per lane, ignoring NaN; whole pairs of vectors. */
VF_INLINE vf max_lanes(const float *s, int64_t from, int64_t to) {
    vf a = vf_max(vf_load(s + from), vf_set1(-INFINITY));
    vf b = vf_max(vf_load(s + from + VF_W), vf_set1(-INFINITY));
    for (int64_t x = from + 2 * VF_W; x < to; x += 2 * VF_W) {
        a = vf_max(vf_load(s + x), a);
        b = vf_max(vf_load(s + x + VF_W), b);
    }
    return vf_max(a, b);
}

/* Raise the maximum to that of the block, and rescale the sums made with the old one. */
static __attribute__((noinline)) void raise_max(row_state *row, vf lanes, float factor,
                                                float *o, int64_t n) {
    const float old = row->top;
    row->top = row->base = vf_reduce_max(lanes);
    row->bound = row->top + LAZY / factor;
    if (old == -INFINITY)
        return; /* nothing was summed yet */
    const vf alpha = vf_set1(exp2f((old - row->top) * factor));
    vf_store(row->sum, vf_mul(vf_load(row->sum), alpha));
    for (int64_t x = 0; x < n; x += VF_W)
        vf_store(o + x, vf_mul(vf_load(o + x), alpha));
}

/* Raise the row's maximum if s[from..to) requires it; o[0..n) is the row's accumulator. */
VF_INLINE void keep_max(row_state *row, const float *s, int64_t from, int64_t to, float factor,
                        float *o, int64_t n) {
    const vf lanes = max_lanes(s, from, to);
    if (__builtin_expect(vf_any_above(lanes, row->bound), 0))
        raise_max(row, lanes, factor, o, n);
}

/* Stores weights x and x+VF_W of a row. */
typedef void store_weights(void *row, int64_t x, vf p0, vf p1);

/* A row of floats, such as the scores themselves. */
static inline void store_in_place(void *row, int64_t x, vf p0, vf p1) {
    vf_store((float *)row + x, p0);
    vf_store((float *)row + x + VF_W, p1);
}

/* Store weights exp2((s - base) * factor) of s[from..to) to `to_row` with `store`, and add
 * their sum to the row's. */
VF_INLINE void weigh_row(row_state *row, const float *s, int64_t from, int64_t to, float factor,
                         const int degree, store_weights *store, void *to_row) {
    const vf f = vf_set1(factor), base = vf_set1(row->base);
    vf sum0 = vf_load(row->sum), sum1 = vf_set1(0.0f);
    for (int64_t x = from; x < to; x += 2 * VF_W) {
        const vf p0 = vf_exp2(vf_mul(vf_sub(vf_load(s + x), base), f), degree);
        const vf p1 = vf_exp2(vf_mul(vf_sub(vf_load(s + x + VF_W), base), f), degree);
        sum0 = vf_add(sum0, p0);
        sum1 = vf_add(sum1, p1);
        store(to_row, x, p0, p1);
    }
    vf_store(row->sum, vf_add(sum0, sum1));
}

#endif
