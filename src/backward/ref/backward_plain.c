/* backward_plain.c: the plain float32 gradients. They share indexing and masking with the
 * oracle, but no arithmetic. */
#include "backward/ref/backward_plain.h"

#include <math.h>

#include "attention/ref/oracle.h"
#include "backward/ref/backward_oracle.h"
#include "base/checked.h"
#include "base/dtype.h"

/* The n-th of [first, end), from either side. */
static int64_t nth(int64_t first, int64_t end, int64_t n, att_plain_order order) {
    return order & ATT_PLAIN_KEYS_BACK ? end - 1 - n : first + n;
}

static float dot(const void *x, att_dtype x_dtype, int64_t x_at, const void *y,
                 att_dtype y_dtype, int64_t y_at, int64_t count, att_plain_order order) {
    float sum = 0.0f;
    for (int64_t n = 0; n < count; n++) {
        const int64_t c = order & ATT_PLAIN_COLUMNS_BACK ? count - 1 - n : n;
        sum += att_load(x, x_dtype, x_at + c) * att_load(y, y_dtype, y_at + c);
    }
    return sum;
}

static float lse_of(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i) {
    return a->lse[att_ref_index_lse(p, a, b, h, i)];
}

static float delta_of(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                      att_plain_order order) {
    return dot(a->d_o, p->dtype_o, att_backward_ref_index_d_o(p, a, b, h, i), a->o, p->dtype_o,
               att_ref_index_o(p, a, b, h, i), p->d_v, order);
}

typedef struct pair {
    float weight, d_s, d_x;
} pair;

static pair pair_of(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                    int64_t j, float delta, att_plain_order order) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv);
    float capped;
    const float score = att_plain_score(p, a, b, h, i, j, order, &capped);
    const float lse = lse_of(p, a, b, h, i);
    const float weight = lse == INFINITY ? 0.0f : score > lse ? 1.0f : expf(score - lse);
    const float d_p = dot(a->d_o, p->dtype_o, att_backward_ref_index_d_o(p, a, b, h, i), a->v,
                          p->dtype, att_ref_index_v(p, a, b, h_kv, j), p->d_v, order);
    const float d_s = weight * (d_p - delta);
    const float bend = p->softcap > 0.0f ? capped / p->softcap : 0.0f;
    return (pair){weight, d_s, d_s * (1.0f - bend * bend)};
}

static void add_scaled(float *sum, float factor, const void *x, att_dtype dtype, int64_t at,
                       int64_t n) {
    for (int64_t c = 0; c < n; c++)
        sum[c] += factor * att_load(x, dtype, at + c);
}

/* Scale and round to the type of the gradients. */
static void finish(const att_problem *p, float *sum, float factor, int64_t n) {
    for (int64_t c = 0; c < n; c++)
        sum[c] = att_plain_rounded(factor * sum[c], p->dtype_grad);
}

void att_backward_plain_query(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                              int64_t i, att_plain_order order, float *d_q) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv), keys = att_ref_len_k(p, a, b);
    const float delta = delta_of(p, a, b, h, i, order);
    for (int64_t c = 0; c < p->d_qk; c++)
        d_q[c] = 0.0f;
    for (int64_t n = 0; n < keys; n++) {
        const int64_t j = nth(0, keys, n, order);
        if (att_backward_ref_sees(p, a, b, h, i, j))
            add_scaled(d_q,
                       att_plain_rounded(pair_of(p, a, b, h, i, j, delta, order).d_x, p->dtype),
                       a->k, p->dtype, att_ref_index_k(p, a, b, h_kv, j), p->d_qk);
    }
    finish(p, d_q, p->scale, p->d_qk);
}

void att_backward_plain_key(const att_problem *p, const att_args *a, int64_t b, int64_t h_kv,
                            int64_t j, att_plain_order order, float *d_k, float *d_v) {
    const int64_t group = p->heads_q / p->heads_kv, rows = att_ref_len_q(p, a, b);
    for (int64_t c = 0; c < p->d_qk; c++)
        d_k[c] = 0.0f;
    for (int64_t c = 0; c < p->d_v; c++)
        d_v[c] = 0.0f;
    for (int64_t h = h_kv * group; h < (h_kv + 1) * group; h++)
        for (int64_t n = 0; n < rows; n++) {
            const int64_t i = nth(0, rows, n, order);
            if (!att_backward_ref_sees(p, a, b, h, i, j))
                continue;
            const pair at = pair_of(p, a, b, h, i, j, delta_of(p, a, b, h, i, order), order);
            add_scaled(d_k, att_plain_rounded(at.d_x, p->dtype), a->q, p->dtype,
                       att_ref_index_q(p, a, b, h, i), p->d_qk);
            add_scaled(d_v, att_plain_rounded(at.weight, p->dtype), a->d_o, p->dtype_o,
                       att_backward_ref_index_d_o(p, a, b, h, i), p->d_v);
        }
    finish(p, d_k, p->scale, p->d_qk);
    finish(p, d_v, 1.0f, p->d_v);
}

float att_backward_plain_bias(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                              int64_t i, int64_t j, att_plain_order order) {
    const att_backward_span bs = att_backward_ref_span(p->grad_bias.batch, b, p->batch),
                            hs = att_backward_ref_span(p->grad_bias.head, h, p->heads_q),
                            is = att_backward_ref_span(p->grad_bias.row, i, p->seq_q),
                            js = att_backward_ref_span(p->grad_bias.col, j, p->seq_k);
    float sum = 0.0f;
    for (b = bs.first; b < bs.end; b++)
        for (h = hs.first; h < hs.end; h++) {
            const int64_t end = att_min(is.end, att_ref_len_q(p, a, b));
            for (int64_t n = 0; n < end - is.first; n++) {
                i = nth(is.first, end, n, order);
                const float delta = delta_of(p, a, b, h, i, order);
                for (int64_t m = 0; m < js.end - js.first; m++) {
                    j = nth(js.first, js.end, m, order);
                    if (att_backward_ref_sees(p, a, b, h, i, j))
                        sum += pair_of(p, a, b, h, i, j, delta, order).d_s;
                }
            }
        }
    return att_plain_rounded(sum, p->dtype_grad == ATT_F32 ? ATT_F32 : p->bias_dtype);
}

float att_backward_plain_sink(const att_problem *p, const att_args *a, int64_t h,
                              att_plain_order order) {
    float sum = 0.0f;
    for (int64_t b = 0; b < p->batch; b++) {
        const int64_t rows = att_ref_len_q(p, a, b);
        for (int64_t n = 0; n < rows; n++) {
            const int64_t i = nth(0, rows, n, order);
            const float lse = lse_of(p, a, b, h, i);
            if (!isinf(lse))
                sum -= expf(a->sinks[h] - lse) * delta_of(p, a, b, h, i, order);
        }
    }
    return sum;
}

float att_backward_plain_slope(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                               att_plain_order order) {
    const att_backward_span bs = att_backward_ref_span(p->alibi_stride_batch, b, p->batch);
    float sum = 0.0f;
    for (b = bs.first; b < bs.end; b++) {
        const att_ref_sequence sequence = att_ref_sequence_of(p, a, b);
        const int64_t rows = sequence.len_q, keys = sequence.len_k;
        for (int64_t n = 0; n < rows; n++) {
            const int64_t i = nth(0, rows, n, order);
            const float delta = delta_of(p, a, b, h, i, order);
            for (int64_t m = 0; m < keys; m++) {
                const int64_t j = nth(0, keys, m, order);
                if (att_backward_ref_sees(p, a, b, h, i, j))
                    sum -= pair_of(p, a, b, h, i, j, delta, order).d_s *
                           fabsf((float)(att_ref_diagonal(p, &sequence, i) - j));
            }
        }
    }
    return sum;
}
