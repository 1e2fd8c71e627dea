/* plain.c: the plain float32 reference. It shares indexing and masking with the oracle, but no
 * arithmetic. */
#include "attention/ref/plain.h"

#include <math.h>
#include <stdbool.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "attention/ref/oracle.h"

float att_plain_rounded(float x, att_dtype dtype) {
    switch (dtype) {
    case ATT_F16:
        return att_f16_to_f32(att_f32_to_f16(x));
    case ATT_BF16:
        return att_bf16_to_f32(att_f32_to_bf16(x));
    default:
        return x;
    }
}

/* As in the oracle: pieces of rows, and keys side by side. */
enum { PIECE = 64, KEYS = 8 };

static void dot_products(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                         int64_t i, int64_t j, int64_t count, bool back, float dot[KEYS]) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv);
    const int64_t q = att_ref_index_q(p, a, b, h, i);
    float row[PIECE], keys[KEYS][PIECE] = {{0.0f}};
    float sum[KEYS] = {0.0f};
    for (int64_t done = 0; done < p->d_qk; done += PIECE) {
        const int64_t n = att_min(p->d_qk - done, PIECE);
        const int64_t c = back ? p->d_qk - done - n : done;
        att_load_row(row, a->q, p->dtype, q + c, n);
        for (int64_t t = 0; t < count; t++)
            att_load_row(keys[t], a->k, p->dtype, att_ref_index_k(p, a, b, h_kv, j + t) + c, n);
        for (int64_t m = 0; m < n; m++) {
            const int64_t at = back ? n - 1 - m : m;
            for (int t = 0; t < KEYS; t++)
                sum[t] += row[at] * keys[t][at];
        }
    }
    for (int t = 0; t < KEYS; t++)
        dot[t] = sum[t];
}

static float logit(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                   int64_t j, float dot, float *capped) {
    float s = p->scale * dot;
    if (p->softcap > 0.0f)
        s = p->softcap * tanhf(s / p->softcap);
    *capped = s;
    if (p->features & ATT_ALIBI) {
        const att_ref_sequence sequence = att_ref_sequence_of(p, a, b);
        const int64_t diagonal = att_ref_diagonal(p, &sequence, i);
        const float slope = a->alibi[b * p->alibi_stride_batch + h];
        s -= slope * fabsf((float)(diagonal - j));
    }
    return s + att_ref_bias(p, a, b, h, i, j);
}

float att_plain_score(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                      int64_t j, att_plain_order order, float *capped) {
    const int64_t q = att_ref_index_q(p, a, b, h, i);
    const int64_t k = att_ref_index_k(p, a, b, h / (p->heads_q / p->heads_kv), j);
    const bool back = order & ATT_PLAIN_COLUMNS_BACK;
    float row[PIECE], key[PIECE], dot = 0.0f;
    for (int64_t done = 0; done < p->d_qk; done += PIECE) {
        const int64_t n = att_min(p->d_qk - done, PIECE);
        const int64_t c = back ? p->d_qk - done - n : done;
        att_load_row(row, a->q, p->dtype, q + c, n);
        att_load_row(key, a->k, p->dtype, k + c, n);
        for (int64_t m = 0; m < n; m++)
            dot += row[back ? n - 1 - m : m] * key[back ? n - 1 - m : m];
    }
    return logit(p, a, b, h, i, j, dot, capped);
}

static float weight(float s, float max) {
    return s == -INFINITY ? 0.0f : expf(s - max);
}

static void add_weighted(const att_problem *p, const att_args *a, int64_t v, float w,
                         float *o) {
    float row[PIECE];
    for (int64_t c = 0; c < p->d_v; c += PIECE) {
        const int64_t n = att_min(p->d_v - c, PIECE);
        att_load_row(row, a->v, p->dtype, v + c, n);
        for (int64_t m = 0; m < n; m++)
            o[c + m] += w * row[m];
    }
}

void att_plain_row(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                   att_plain_order order, float *logits, float *o, float *lse) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv);
    int64_t lo, hi;
    const att_ref_sequence sequence = att_ref_sequence_of(p, a, b);
    att_ref_visible(p, &sequence, i, &lo, &hi);

    const float sink = p->features & ATT_SINKS ? a->sinks[h] : -INFINITY;
    float max = sink;
    for (int64_t first = lo; first < hi; first += KEYS) {
        const int64_t count = att_min(hi - first, KEYS);
        float dot[KEYS], capped;
        dot_products(p, a, b, h, i, first, count, order & ATT_PLAIN_COLUMNS_BACK, dot);
        for (int64_t t = 0, j = first; t < count; t++, j++) {
            if (att_ref_bias_hides(p, a, b, h, i, j))
                continue;
            logits[j] = logit(p, a, b, h, i, j, dot[t], &capped);
            max = fmaxf(max, logits[j]);
        }
    }

    for (int64_t c = 0; c < p->d_v; c++)
        o[c] = 0.0f;
    float total = weight(sink, max);
    for (int64_t n = lo; n < hi; n++) {
        const int64_t j = order & ATT_PLAIN_KEYS_BACK ? lo + hi - 1 - n : n;
        if (att_ref_bias_hides(p, a, b, h, i, j))
            continue;
        const float w = weight(logits[j], max);
        const float w_rounded = att_plain_rounded(w, p->dtype);
        const int64_t v = att_ref_index_v(p, a, b, h_kv, j);
        total += w;
        add_weighted(p, a, v, w_rounded, o);
    }

    for (int64_t c = 0; c < p->d_v; c++)
        o[c] = total == 0.0f ? 0.0f : att_plain_rounded(o[c] / total, p->dtype_o);
    *lse = total == 0.0f ? -INFINITY : max + logf(total);
}
