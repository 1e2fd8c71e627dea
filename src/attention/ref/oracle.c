/* oracle.c: attention in float64, written to be compared with the formula in attest.h. */
#include "attention/ref/oracle.h"

#include <math.h>
#include <stdbool.h>

#include "base/checked.h"
#include "base/dtype.h"

static bool has(const att_problem *p, unsigned feature) {
    return (p->features & feature) != 0;
}

int64_t att_ref_len_q(const att_problem *p, const att_args *a, int64_t b) {
    if (has(p, ATT_CU_SEQLENS_Q))
        return a->cu_seqlens_q[b + 1] - a->cu_seqlens_q[b];
    return p->seq_q;
}

int64_t att_ref_len_k(const att_problem *p, const att_args *a, int64_t b) {
    int64_t len = p->seq_k;
    if (has(p, ATT_CU_SEQLENS_K))
        len = a->cu_seqlens_k[b + 1] - a->cu_seqlens_k[b];
    if (has(p, ATT_LENS_K))
        len = att_min(len, a->lens_k[b]);
    return len;
}

int64_t att_ref_start_k(const att_problem *p, const att_args *a, int64_t b) {
    return has(p, ATT_STARTS_K) ? a->starts_k[b] : 0;
}

/* Packed tensors store the rows of all sequences one after the other: the batch stride is not
 * used. */
static int64_t row_index(const att_strides *strides, const int32_t *cu_seqlens, int64_t b,
                         int64_t h, int64_t row) {
    if (cu_seqlens)
        return h * strides->head + (cu_seqlens[b] + row) * strides->row;
    return b * strides->batch + h * strides->head + row * strides->row;
}

int64_t att_ref_index_q(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                        int64_t i) {
    return row_index(&p->q, has(p, ATT_CU_SEQLENS_Q) ? a->cu_seqlens_q : NULL, b, h, i);
}

int64_t att_ref_index_o(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                        int64_t i) {
    return row_index(&p->o, has(p, ATT_CU_SEQLENS_Q) ? a->cu_seqlens_q : NULL, b, h, i);
}

int64_t att_ref_index_lse(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                          int64_t i) {
    return row_index(&p->lse, has(p, ATT_CU_SEQLENS_Q) ? a->cu_seqlens_q : NULL, b, h, i);
}

static int64_t key_index(const att_problem *p, const att_args *a, const att_strides *strides,
                         int64_t b, int64_t h_kv, int64_t j) {
    if (has(p, ATT_PAGED)) {
        const int64_t page = a->page_table[b * p->page_table_stride + j / p->page_size];
        return page * strides->batch + h_kv * strides->head + j % p->page_size * strides->row;
    }
    return row_index(strides, has(p, ATT_CU_SEQLENS_K) ? a->cu_seqlens_k : NULL, b, h_kv, j);
}

int64_t att_ref_index_k(const att_problem *p, const att_args *a, int64_t b, int64_t h_kv,
                        int64_t j) {
    return key_index(p, a, &p->k, b, h_kv, j);
}

int64_t att_ref_index_v(const att_problem *p, const att_args *a, int64_t b, int64_t h_kv,
                        int64_t j) {
    return key_index(p, a, &p->v, b, h_kv, j);
}

att_ref_sequence att_ref_sequence_of(const att_problem *p, const att_args *a, int64_t b) {
    return (att_ref_sequence){
        .len_q = att_ref_len_q(p, a, b),
        .len_k = att_ref_len_k(p, a, b),
        .start_k = att_ref_start_k(p, a, b),
        .offset = p->q_offset + (has(p, ATT_Q_OFFSETS) ? a->q_offsets[b] : 0) -
                  (p->k_offset + (has(p, ATT_K_OFFSETS) ? a->k_offsets[b] : 0)),
    };
}

int64_t att_ref_diagonal(const att_problem *p, const att_ref_sequence *s, int64_t i) {
    const bool bottom_right =
        p->causal == ATT_CAUSAL_BOTTOM_RIGHT ||
        (p->causal == ATT_CAUSAL_NONE && p->align == ATT_ALIGN_BOTTOM_RIGHT);
    return bottom_right ? i + s->len_k - s->len_q : i + s->offset;
}

void att_ref_visible(const att_problem *p, const att_ref_sequence *s, int64_t i, int64_t *lo,
                     int64_t *hi) {
    const int64_t diagonal = att_ref_diagonal(p, s, i);
    *lo = s->start_k;
    *hi = s->len_k;
    if (p->causal != ATT_CAUSAL_NONE)
        *hi = att_min(*hi, diagonal + 1);
    /* Compared before adding: a window may be as wide as INT64_MAX. */
    if (p->window_left >= 0 && p->window_left < diagonal)
        *lo = att_max(*lo, diagonal - p->window_left);
    if (p->window_right >= 0 && p->window_right < *hi - 1 - diagonal)
        *hi = diagonal + p->window_right + 1;
}

static int64_t bias_index(const att_problem *p, int64_t b, int64_t h, int64_t i, int64_t j) {
    return b * p->bias.batch + h * p->bias.head + i * p->bias.row + j * p->bias.col;
}

bool att_ref_bias_hides(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                        int64_t i, int64_t j) {
    if (!has(p, ATT_BIAS))
        return false;
    const float bias = att_load(a->bias, p->bias_dtype, bias_index(p, b, h, i, j));
    return p->bias_dtype == ATT_BOOL8 ? bias == 0.0f : bias == -INFINITY;
}

float att_ref_bias(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    if (!has(p, ATT_BIAS) || p->bias_dtype == ATT_BOOL8)
        return 0.0f;
    return att_load(a->bias, p->bias_dtype, bias_index(p, b, h, i, j));
}

/* Rows are loaded in pieces of PIECE columns; KEYS keys are multiplied side by side. */
enum { PIECE = 64, KEYS = 8 };

/* The products of row i with keys j .. j + count, at most KEYS, each summed from its first
 * column to its last. They are computed side by side because each addition depends only on the
 * previous one of its own sum. */
static void dot_products(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                         int64_t i, int64_t j, int64_t count, double dot[KEYS]) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv);
    const int64_t q = att_ref_index_q(p, a, b, h, i);
    float row[PIECE], keys[KEYS][PIECE] = {{0.0f}};
    double sum[KEYS] = {0.0};
    for (int64_t c = 0; c < p->d_qk; c += PIECE) {
        const int64_t n = att_min(p->d_qk - c, PIECE);
        att_load_row(row, a->q, p->dtype, q + c, n);
        for (int64_t t = 0; t < count; t++)
            att_load_row(keys[t], a->k, p->dtype, att_ref_index_k(p, a, b, h_kv, j + t) + c, n);
        for (int64_t m = 0; m < n; m++)
            for (int t = 0; t < KEYS; t++)
                sum[t] += (double)row[m] * (double)keys[t][m];
    }
    for (int t = 0; t < KEYS; t++)
        dot[t] = sum[t];
}

static double logit(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                    int64_t j, double dot, double *capped) {
    double s = (double)p->scale * dot;
    if (p->softcap > 0.0f)
        s = (double)p->softcap * tanh(s / (double)p->softcap);
    *capped = s;
    if (has(p, ATT_ALIBI)) {
        const att_ref_sequence sequence = att_ref_sequence_of(p, a, b);
        const int64_t diagonal = att_ref_diagonal(p, &sequence, i);
        const double slope = (double)a->alibi[b * p->alibi_stride_batch + h];
        s -= slope * fabs((double)(diagonal - j));
    }
    return s + (double)att_ref_bias(p, a, b, h, i, j);
}

double att_ref_score(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                     int64_t j, double *capped) {
    const int64_t q = att_ref_index_q(p, a, b, h, i);
    const int64_t k = att_ref_index_k(p, a, b, h / (p->heads_q / p->heads_kv), j);
    float row[PIECE], key[PIECE];
    double dot = 0.0;
    for (int64_t c = 0; c < p->d_qk; c += PIECE) {
        const int64_t n = att_min(p->d_qk - c, PIECE);
        att_load_row(row, a->q, p->dtype, q + c, n);
        att_load_row(key, a->k, p->dtype, k + c, n);
        for (int64_t m = 0; m < n; m++)
            dot += (double)row[m] * (double)key[m];
    }
    return logit(p, a, b, h, i, j, dot, capped);
}

/* exp(s - max); -inf has no weight, even if every logit of the row is -inf. */
static double weight(double s, double max) {
    return s == -INFINITY ? 0.0 : exp(s - max);
}

/* o += w * the row of V at `v`. */
static void add_weighted(const att_problem *p, const att_args *a, int64_t v, double w,
                         double *o) {
    float row[PIECE];
    for (int64_t c = 0; c < p->d_v; c += PIECE) {
        const int64_t n = att_min(p->d_v - c, PIECE);
        att_load_row(row, a->v, p->dtype, v + c, n);
        for (int64_t m = 0; m < n; m++)
            o[c + m] += w * (double)row[m];
    }
}

void att_ref_row(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                 double *logits, double *o, double *lse) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv);
    int64_t lo, hi;
    const att_ref_sequence sequence = att_ref_sequence_of(p, a, b);
    att_ref_visible(p, &sequence, i, &lo, &hi);

    const double sink = has(p, ATT_SINKS) ? (double)a->sinks[h] : -INFINITY;
    double max = sink;
    for (int64_t first = lo; first < hi; first += KEYS) {
        const int64_t count = att_min(hi - first, KEYS);
        double dot[KEYS], capped;
        dot_products(p, a, b, h, i, first, count, dot);
        for (int64_t t = 0, j = first; t < count; t++, j++) {
            if (att_ref_bias_hides(p, a, b, h, i, j))
                continue;
            logits[j] = logit(p, a, b, h, i, j, dot[t], &capped);
            max = fmax(max, logits[j]);
        }
    }

    for (int64_t c = 0; c < p->d_v; c++)
        o[c] = 0.0;
    double total = weight(sink, max);
    for (int64_t j = lo; j < hi; j++) {
        if (att_ref_bias_hides(p, a, b, h, i, j))
            continue;
        const double w = weight(logits[j], max);
        const int64_t v = att_ref_index_v(p, a, b, h_kv, j);
        total += w;
        add_weighted(p, a, v, w, o);
    }

    for (int64_t c = 0; c < p->d_v; c++)
        o[c] = total == 0.0 ? 0.0 : o[c] / total;
    *lse = total == 0.0 ? -INFINITY : max + log(total);
}
