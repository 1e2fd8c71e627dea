/* plain.c: the plain float32 reference; it shares indexing and masking with the oracle, no
 * numbers. */
#include "attention/ref/plain.h"

#include <math.h>
#include <stdbool.h>

#include "base/dtype.h"
#include "attention/ref/oracle.h"

static float rounded(float x, att_dtype dtype) {
    switch (dtype) {
    case ATT_F16:
        return att_f16_to_f32(att_f32_to_f16(x));
    case ATT_BF16:
        return att_bf16_to_f32(att_f32_to_bf16(x));
    default:
        return x;
    }
}

static float logit(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                   int64_t j, bool back) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv);
    const int64_t q = att_ref_index_q(p, a, b, h, i);
    const int64_t k = att_ref_index_k(p, a, b, h_kv, j);
    float dot = 0.0f;
    for (int64_t n = 0; n < p->d_qk; n++) {
        const int64_t c = back ? p->d_qk - 1 - n : n;
        dot += att_load(a->q, p->dtype, q + c) * att_load(a->k, p->dtype, k + c);
    }

    float s = p->scale * dot;
    if (p->softcap > 0.0f)
        s = p->softcap * tanhf(s / p->softcap);
    if (p->features & ATT_ALIBI) {
        const int64_t diagonal =
            att_ref_diagonal(p, att_ref_len_q(p, a, b), att_ref_len_k(p, a, b), i);
        const float slope = a->alibi[b * p->alibi_stride_batch + h];
        s -= slope * fabsf((float)(diagonal - j));
    }
    return s + att_ref_bias(p, a, b, h, i, j);
}

static float weight(float s, float max) {
    return s == -INFINITY ? 0.0f : expf(s - max);
}

void att_plain_row(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                   att_plain_order order, float *logits, float *o, float *lse) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv);
    int64_t lo, hi;
    att_ref_visible(p, att_ref_len_q(p, a, b), att_ref_len_k(p, a, b), att_ref_start_k(p, a, b),
                    i, &lo, &hi);

    const float sink = p->features & ATT_SINKS ? a->sinks[h] : -INFINITY;
    float max = sink;
    for (int64_t j = lo; j < hi; j++) {
        if (att_ref_bias_hides(p, a, b, h, i, j))
            continue;
        logits[j] = logit(p, a, b, h, i, j, order & ATT_PLAIN_COLUMNS_BACK);
        max = fmaxf(max, logits[j]);
    }

    for (int64_t c = 0; c < p->d_v; c++)
        o[c] = 0.0f;
    float total = weight(sink, max);
    for (int64_t n = lo; n < hi; n++) {
        const int64_t j = order & ATT_PLAIN_KEYS_BACK ? lo + hi - 1 - n : n;
        if (att_ref_bias_hides(p, a, b, h, i, j))
            continue;
        const float w = weight(logits[j], max);
        const float w_rounded = rounded(w, p->dtype);
        const int64_t v = att_ref_index_v(p, a, b, h_kv, j);
        total += w;
        for (int64_t c = 0; c < p->d_v; c++)
            o[c] += w_rounded * att_load(a->v, p->dtype, v + c);
    }

    for (int64_t c = 0; c < p->d_v; c++)
        o[c] = total == 0.0f ? 0.0f : rounded(o[c] / total, p->dtype_o);
    *lse = total == 0.0f ? -INFINITY : max + logf(total);
}
