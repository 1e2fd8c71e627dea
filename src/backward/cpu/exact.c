/* exact.c: gradients one row or one key at a time in float64, for results that overflow
 * float32. */
#include "backward/cpu/exact.h"

#include <math.h>

#include "backward/cpu/addresses.h"
#include "base/dtype.h"

/* The bias of key j; -inf hides the key, whose K and V are then not read. */
static double bias_of(const att_exact_row *r, int64_t j) {
    const att_problem *p = r->job->base.p;
    if (!(p->features & ATT_BIAS))
        return 0.0;
    const int64_t at = att_cpu_bias_offset(p, r->s, r->head, r->position) + j * p->bias.col;
    const float b = att_load(r->job->base.a->bias, p->bias_dtype, at);
    if (p->bias_dtype == ATT_BOOL8)
        return b != 0.0f ? 0.0 : -INFINITY;
    return (double)b;
}

static double dot(const double *a, const void *base, att_dtype dtype, int64_t at, int64_t n) {
    double sum = 0.0;
    for (int64_t x = 0; x < n; x++)
        sum += a[x] * (double)att_load(base, dtype, at + x);
    return sum;
}

/* scale * dot(q, k), after softcap. */
static double capped_score(const att_exact_row *r, int64_t j) {
    const att_problem *p = r->job->base.p;
    const int64_t k = att_key_offset(p, &p->k, r->s, j);
    const double t = (double)p->scale * dot(r->q, r->job->base.a->k, p->dtype, k, p->d_qk);
    return p->softcap > 0.0f ? (double)p->softcap * tanh(t / (double)p->softcap) : t;
}

/* The final score of a key with this bias. */
static double score(const att_exact_row *r, int64_t j, double capped, double bias) {
    if (r->job->base.p->features & ATT_ALIBI)
        capped -= (double)att_cpu_slope(&r->job->base, r->s->batch, r->head) *
                  fabs((double)(r->position + r->s->shift - j));
    return capped + bias;
}

static void load_row(att_exact_row *row, const att_gradient_job *job, const att_cpu_sequence *s,
                     int64_t r, att_cpu_interval seen) {
    const att_problem *p = job->base.p;
    const att_args *a = job->base.a;
    const att_cpu_query query = att_cpu_query_of(&job->base, s, r);
    row->job = job;
    row->s = s;
    row->head = query.head;
    row->position = query.position;
    row->seen = seen;
    const int64_t q = att_query_offset(p, &p->q, s, row->head, row->position);
    for (int64_t x = 0; x < p->d_qk; x++)
        row->q[x] = (double)att_load(a->q, p->dtype, q + x);
}

double att_exact_lse(const att_gradient_job *job, const att_cpu_sequence *s, int64_t r,
                     att_cpu_interval seen) {
    const bool has_sink = job->base.p->features & ATT_SINKS;
    att_exact_row row;
    load_row(&row, job, s, r, seen);
    const double sink = has_sink ? (double)job->base.a->sinks[row.head] : -INFINITY;
    double top = sink, sum = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1 && has_sink)
            sum = exp(sink - top);
        for (int64_t j = seen.lo; j < seen.hi; j++) {
            const double bias = bias_of(&row, j);
            if (bias == -INFINITY)
                continue;
            const double logit = score(&row, j, capped_score(&row, j), bias);
            if (pass == 0)
                top = logit > top ? logit : top;
            else
                sum += exp(logit - top);
        }
    }
    return top + log(sum);
}

void att_exact_row_load(att_exact_row *row, const att_gradient_job *job,
                        const att_cpu_sequence *s, int64_t r, const att_row_fact *fact) {
    const att_problem *p = job->base.p;
    const att_args *a = job->base.a;
    load_row(row, job, s, r, (att_cpu_interval){fact->lo, fact->hi});
    const int64_t d_o = att_query_offset(p, &p->grad_o, s, row->head, row->position);
    for (int64_t x = 0; x < p->d_v; x++)
        row->d_o[x] = (double)att_load(a->d_o, p->dtype_o, d_o + x);
    row->delta = dot(row->d_o, a->o, p->dtype_o,
                     att_query_offset(p, &p->o, s, row->head, row->position), p->d_v);
    row->lse = fact->lse;
}

att_exact_pair att_exact_pair_of(const att_exact_row *row, int64_t j) {
    const att_problem *p = row->job->base.p;
    att_exact_pair pair = {0.0, 0.0, 0.0};
    if (j < row->seen.lo || j >= row->seen.hi)
        return pair;
    const double bias = bias_of(row, j);
    if (bias == -INFINITY)
        return pair;
    const double capped = capped_score(row, j);
    const int64_t v = att_key_offset(p, &p->v, row->s, j);
    pair.p = exp(score(row, j, capped, bias) - row->lse);
    pair.d_s = pair.p * (dot(row->d_o, row->job->base.a->v, p->dtype, v, p->d_v) - row->delta);
    pair.d_x = pair.d_s;
    if (p->softcap > 0.0f) {
        const double share = capped / (double)p->softcap;
        pair.d_x *= 1.0 - share * share;
    }
    return pair;
}

void att_exact_store_d_q(const att_gradient_job *job, const att_cpu_sequence *s, int64_t r) {
    const att_problem *p = job->base.p;
    double sum[ATT_BACKWARD_CPU_D_MAX] = {0.0};
    att_exact_row row;
    att_exact_row_load(&row, job, s, r, job->facts + att_gradient_first_row(job, s) + r);
    for (int64_t j = row.seen.lo; j < row.seen.hi; j++) {
        const double d_x = att_exact_pair_of(&row, j).d_x;
        const int64_t k = att_key_offset(p, &p->k, s, j);
        if (d_x != 0.0) /* a hidden key may hold NaN */
            for (int64_t x = 0; x < p->d_qk; x++)
                sum[x] += d_x * (double)att_load(job->base.a->k, p->dtype, k + x);
    }
    const int64_t out = att_query_offset(p, &p->grad_q, s, row.head, row.position);
    for (int64_t x = 0; x < p->d_qk; x++)
        att_store(job->base.a->d_q, p->dtype_grad, out + x, (float)(sum[x] * (double)p->scale));
}

void att_exact_store_d_kv(const att_gradient_job *job, const att_cpu_sequence *s, int64_t j) {
    const att_problem *p = job->base.p;
    const att_row_fact *facts = job->facts + att_gradient_first_row(job, s);
    double d_k[ATT_BACKWARD_CPU_D_MAX] = {0.0}, d_v[ATT_BACKWARD_CPU_D_MAX] = {0.0};
    att_exact_row row;
    for (int64_t r = 0; r < s->len_q * job->cut->tiling.group; r++) {
        if (j < facts[r].lo || j >= facts[r].hi)
            continue;
        att_exact_row_load(&row, job, s, r, &facts[r]);
        const att_exact_pair pair = att_exact_pair_of(&row, j);
        if (pair.p == 0.0)
            continue;
        for (int64_t x = 0; x < p->d_v; x++)
            d_v[x] += pair.p * row.d_o[x];
        for (int64_t x = 0; x < p->d_qk; x++)
            d_k[x] += pair.d_x * row.q[x];
    }
    const int64_t to_k = att_key_offset(p, &p->grad_k, s, j);
    for (int64_t x = 0; x < p->d_qk; x++)
        att_store(job->base.a->d_k, p->dtype_grad, to_k + x,
                  (float)(d_k[x] * (double)p->scale));
    const int64_t to_v = att_key_offset(p, &p->grad_v, s, j);
    for (int64_t x = 0; x < p->d_v; x++)
        att_store(job->base.a->d_v, p->dtype_grad, to_v + x, (float)d_v[x]);
}
