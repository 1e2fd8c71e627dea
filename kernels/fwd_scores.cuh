/* fwd_scores.cuh: from products to scores: softcap, ALiBi, bias, and the mask. */
#ifndef ATT_FWD_SCORES_CUH
#define ATT_FWD_SCORES_CUH

#include "kernels/convert.cuh"
#include "kernels/fwd_sequence.cuh"
#include "kernels/math.cuh"

/* The bias of query row i of `head` at key j; -inf hides the key. */
DEVICE float bias_at(const att_fwd_params *p, const sequence *s, int head, int i, int j) {
    if (!p->bias)
        return 0.0f;
    const att_fwd_strides *st = &p->bias_stride;
    const long long at = s->batch * st->batch + head * st->head + i * st->row + (s->first_k + j) * st->col;
    if (p->bias_dtype == BOOL8)
        return ((const unsigned char *)p->bias)[at] ? 0.0f : -INFINITE;
    return load_as_float(p->bias, at, p->bias_dtype);
}

/* Turn one product q.k into a score in units of log2, with every feature a problem may have. i
 * < len_q, j < len_k. */
DEVICE float score_of(const att_fwd_params *p, const sequence *s, int head, int i, int j, float slope,
                      float product) {
    float x = p->softcap > 0.0f ? p->softcap * tanhf(product * p->scale_log2) : product * p->scale;
    x -= slope * fabsf((float)(i + s->shift - j));
    return (x + bias_at(p, s, head, i, j)) * LOG2_E;
}

DEVICE float slope_of(const att_fwd_params *p, int batch, int head) {
    return p->alibi ? p->alibi[batch * p->alibi_batch + head] : 0.0f;
}

/* Add the sink's weight to a complete row: increases *lse, in units of log2, and returns the
 * factor for O. */
DEVICE float add_sink(const att_fwd_params *p, int head, float *lse) {
    const float own = *lse, sink = p->sinks ? p->sinks[head] * LOG2_E : -INFINITE;
    if (sink == -INFINITE)
        return 1.0f;
    const float high = fmaxf(own, sink);
    *lse = high + log2_fast(exp2_fast(own - high) + exp2_fast(sink - high));
    return exp2_fast(own - *lse);
}

#endif
