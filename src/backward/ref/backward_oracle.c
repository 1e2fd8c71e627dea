/* backward_oracle.c: gradients in float64, written to be compared with the formula in
 * attest.h. */
#include "backward/ref/backward_oracle.h"

#include <math.h>

#include "attention/ref/oracle.h"
#include "base/checked.h"
#include "base/dtype.h"

/* -------------------------------------------------------------------- places */

int64_t att_backward_ref_room_k(const att_problem *p, const att_args *a, int64_t b) {
    return p->features & ATT_CU_SEQLENS_K ? a->cu_seqlens_k[b + 1] - a->cu_seqlens_k[b]
                                          : p->seq_k;
}

static int64_t row_index(const att_strides *s, const int32_t *cu_seqlens, int64_t b, int64_t h,
                         int64_t row) {
    return cu_seqlens ? h * s->head + (cu_seqlens[b] + row) * s->row
                      : b * s->batch + h * s->head + row * s->row;
}

static int64_t query_index(const att_problem *p, const att_args *a, const att_strides *s,
                           int64_t b, int64_t h, int64_t i) {
    return row_index(s, p->features & ATT_CU_SEQLENS_Q ? a->cu_seqlens_q : NULL, b, h, i);
}

static int64_t key_index(const att_problem *p, const att_args *a, const att_strides *s,
                         int64_t b, int64_t h_kv, int64_t j) {
    return row_index(s, p->features & ATT_CU_SEQLENS_K ? a->cu_seqlens_k : NULL, b, h_kv, j);
}

int64_t att_backward_ref_index_d_o(const att_problem *p, const att_args *a, int64_t b,
                                   int64_t h, int64_t i) {
    return query_index(p, a, &p->grad_o, b, h, i);
}

int64_t att_backward_ref_index_d_q(const att_problem *p, const att_args *a, int64_t b,
                                   int64_t h, int64_t i) {
    return query_index(p, a, &p->grad_q, b, h, i);
}

int64_t att_backward_ref_index_d_k(const att_problem *p, const att_args *a, int64_t b,
                                   int64_t h_kv, int64_t j) {
    return key_index(p, a, &p->grad_k, b, h_kv, j);
}

int64_t att_backward_ref_index_d_v(const att_problem *p, const att_args *a, int64_t b,
                                   int64_t h_kv, int64_t j) {
    return key_index(p, a, &p->grad_v, b, h_kv, j);
}

int64_t att_backward_ref_index_d_bias(const att_problem *p, int64_t b, int64_t h, int64_t i,
                                      int64_t j) {
    const att_strides *s = &p->grad_bias;
    return b * s->batch + h * s->head + i * s->row + j * s->col;
}

att_backward_span att_backward_ref_span(int64_t stride, int64_t at, int64_t size) {
    return stride == 0 ? (att_backward_span){0, size} : (att_backward_span){at, at + 1};
}

bool att_backward_ref_sees(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                           int64_t i, int64_t j) {
    int64_t lo, hi;
    const att_ref_sequence sequence = att_ref_sequence_of(p, a, b);
    att_ref_visible(p, &sequence, i, &lo, &hi);
    return j >= lo && j < hi && a->lse[att_ref_index_lse(p, a, b, h, i)] != -INFINITY &&
           !att_ref_bias_hides(p, a, b, h, i, j);
}

/* --------------------------------------------------------------------- pairs */

/* A dot product, and the dot product of the magnitudes. */
static att_backward_value dot(const void *x, att_dtype x_dtype, int64_t x_at, const void *y,
                              att_dtype y_dtype, int64_t y_at, int64_t n) {
    att_backward_value sum = {0.0, 0.0};
    for (int64_t c = 0; c < n; c++) {
        const double product =
            (double)att_load(x, x_dtype, x_at + c) * (double)att_load(y, y_dtype, y_at + c);
        sum.value += product;
        sum.size += fabs(product);
    }
    return sum;
}

static void add(att_backward_value *sum, double factor, att_backward_value x) {
    sum->value += factor * x.value;
    sum->size += fabs(factor) * x.size;
}

/* Above this, the rounding of a float32 lse changes every weight of its row by a factor of 1 +-
 * 2^-5 or more. */
static const double lse_most = 0x1p20;

/* The row's lse from its scores. */
static double exact_lse(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                        int64_t i) {
    const double sink = p->features & ATT_SINKS ? (double)a->sinks[h] : -INFINITY;
    double max = sink, capped;
    for (int64_t j = 0; j < att_ref_len_k(p, a, b); j++)
        if (att_backward_ref_sees(p, a, b, h, i, j))
            max = fmax(max, att_ref_score(p, a, b, h, i, j, &capped));
    double total = exp(sink - max);
    for (int64_t j = 0; j < att_ref_len_k(p, a, b); j++)
        if (att_backward_ref_sees(p, a, b, h, i, j))
            total += exp(att_ref_score(p, a, b, h, i, j, &capped) - max);
    return max + log(total);
}

static double lse_of(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i) {
    const double given = (double)a->lse[att_ref_index_lse(p, a, b, h, i)];
    return given > lse_most || (given < -lse_most && given != -INFINITY)
               ? exact_lse(p, a, b, h, i)
               : given;
}

static att_backward_value delta_of(const att_problem *p, const att_args *a, int64_t b,
                                   int64_t h, int64_t i) {
    return dot(a->d_o, p->dtype_o, att_backward_ref_index_d_o(p, a, b, h, i), a->o, p->dtype_o,
               att_ref_index_o(p, a, b, h, i), p->d_v);
}

/* The effect of a key on a row that sees it: the weight, and the derivatives with respect to
 * the final score and to scale * dot(q, k). */
typedef struct pair {
    att_backward_value weight, d_s, d_x;
} pair;

/* The magnitudes that are rounded when a score is computed and the lse subtracted: the weight's
 * relative error is proportional to them. */
static double score_size(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                         int64_t i, int64_t j, double score, double lse) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv);
    const att_backward_value dots = dot(a->q, p->dtype, att_ref_index_q(p, a, b, h, i), a->k,
                                        p->dtype, att_ref_index_k(p, a, b, h_kv, j), p->d_qk);
    return fabs((double)p->scale) * dots.size + fabs(score) + fabs(lse);
}

static pair pair_of(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                    int64_t j, att_backward_value delta) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv);
    double capped;
    const double score = att_ref_score(p, a, b, h, i, j, &capped);
    const double lse = lse_of(p, a, b, h, i), weight = exp(score - lse);
    const double rounded = score_size(p, a, b, h, i, j, score, lse);
    const att_backward_value d_p =
        dot(a->d_o, p->dtype_o, att_backward_ref_index_d_o(p, a, b, h, i), a->v, p->dtype,
            att_ref_index_v(p, a, b, h_kv, j), p->d_v);
    const double d_s = weight * (d_p.value - delta.value);
    const double bend = p->softcap > 0.0f ? capped / (double)p->softcap : 0.0;
    pair of = {.weight = {weight, weight * rounded},
               .d_s = {d_s, weight * (d_p.size + delta.size) + fabs(d_s) * rounded}};
    add(&of.d_x, 1.0 - bend * bend, of.d_s);
    return of;
}

/* sum[c] += factor * x[c] */
static void add_scaled(double *sum, double factor, const void *x, att_dtype dtype, int64_t at,
                       int64_t n) {
    for (int64_t c = 0; c < n; c++)
        sum[c] += factor * (double)att_load(x, dtype, at + c);
}

static void add_sizes(double *sum, double factor, const void *x, att_dtype dtype, int64_t at,
                      int64_t n) {
    for (int64_t c = 0; c < n; c++)
        sum[c] += fabs(factor * (double)att_load(x, dtype, at + c));
}

static void clear(double *sum, int64_t n) {
    for (int64_t c = 0; c < n; c++)
        sum[c] = 0.0;
}

/* ------------------------------------------------------------------- answers */

void att_backward_ref_query(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                            int64_t i, double *d_q, double *size_q) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv);
    const double scale = (double)p->scale;
    const att_backward_value delta = delta_of(p, a, b, h, i);
    clear(d_q, p->d_qk);
    clear(size_q, p->d_qk);
    for (int64_t j = 0; j < att_ref_len_k(p, a, b); j++) {
        if (!att_backward_ref_sees(p, a, b, h, i, j))
            continue;
        const pair at = pair_of(p, a, b, h, i, j, delta);
        const int64_t k = att_ref_index_k(p, a, b, h_kv, j);
        add_scaled(d_q, scale * at.d_x.value, a->k, p->dtype, k, p->d_qk);
        add_sizes(size_q, scale * at.d_x.size, a->k, p->dtype, k, p->d_qk);
    }
}

void att_backward_ref_key(const att_problem *p, const att_args *a, int64_t b, int64_t h_kv,
                          int64_t j, double *d_k, double *size_k, double *d_v, double *size_v) {
    const int64_t group = p->heads_q / p->heads_kv;
    const double scale = (double)p->scale;
    clear(d_k, p->d_qk);
    clear(size_k, p->d_qk);
    clear(d_v, p->d_v);
    clear(size_v, p->d_v);
    for (int64_t h = h_kv * group; h < (h_kv + 1) * group; h++)
        for (int64_t i = 0; i < att_ref_len_q(p, a, b); i++) {
            if (!att_backward_ref_sees(p, a, b, h, i, j))
                continue;
            const pair at = pair_of(p, a, b, h, i, j, delta_of(p, a, b, h, i));
            const int64_t q = att_ref_index_q(p, a, b, h, i);
            add_scaled(d_k, scale * at.d_x.value, a->q, p->dtype, q, p->d_qk);
            add_sizes(size_k, scale * at.d_x.size, a->q, p->dtype, q, p->d_qk);
            const int64_t d_o = att_backward_ref_index_d_o(p, a, b, h, i);
            add_scaled(d_v, at.weight.value, a->d_o, p->dtype_o, d_o, p->d_v);
            add_sizes(size_v, at.weight.size, a->d_o, p->dtype_o, d_o, p->d_v);
        }
}

att_backward_value att_backward_ref_bias(const att_problem *p, const att_args *a, int64_t b,
                                         int64_t h, int64_t i, int64_t j) {
    const att_backward_span bs = att_backward_ref_span(p->grad_bias.batch, b, p->batch),
                            hs = att_backward_ref_span(p->grad_bias.head, h, p->heads_q),
                            is = att_backward_ref_span(p->grad_bias.row, i, p->seq_q),
                            js = att_backward_ref_span(p->grad_bias.col, j, p->seq_k);
    att_backward_value sum = {0.0, 0.0};
    for (b = bs.first; b < bs.end; b++)
        for (h = hs.first; h < hs.end; h++)
            for (i = is.first; i < att_min(is.end, att_ref_len_q(p, a, b)); i++) {
                const att_backward_value delta = delta_of(p, a, b, h, i);
                for (j = js.first; j < js.end; j++)
                    if (att_backward_ref_sees(p, a, b, h, i, j))
                        add(&sum, 1.0, pair_of(p, a, b, h, i, j, delta).d_s);
            }
    return sum;
}

att_backward_value att_backward_ref_sink(const att_problem *p, const att_args *a, int64_t h) {
    att_backward_value sum = {0.0, 0.0};
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < att_ref_len_q(p, a, b); i++) {
            const double lse = lse_of(p, a, b, h, i);
            if (lse != -INFINITY)
                add(&sum, -exp((double)a->sinks[h] - lse), delta_of(p, a, b, h, i));
        }
    return sum;
}

att_backward_value att_backward_ref_slope(const att_problem *p, const att_args *a, int64_t b,
                                          int64_t h) {
    const att_backward_span bs = att_backward_ref_span(p->alibi_stride_batch, b, p->batch);
    att_backward_value sum = {0.0, 0.0};
    for (b = bs.first; b < bs.end; b++) {
        const att_ref_sequence sequence = att_ref_sequence_of(p, a, b);
        for (int64_t i = 0; i < sequence.len_q; i++) {
            const att_backward_value delta = delta_of(p, a, b, h, i);
            const int64_t diagonal = att_ref_diagonal(p, &sequence, i);
            for (int64_t j = 0; j < sequence.len_k; j++)
                if (att_backward_ref_sees(p, a, b, h, i, j))
                    add(&sum, -fabs((double)(diagonal - j)),
                        pair_of(p, a, b, h, i, j, delta).d_s);
        }
    }
    return sum;
}
