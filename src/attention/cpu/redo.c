/* redo.c: recomputes one row in float64 after overflow in float32. */
#include "attention/cpu/redo.h"

#include <math.h>

#include "base/dtype.h"

enum { D_MAX = 256 };

typedef struct redo {
    const att_cpu_job *job;
    const att_cpu_sequence *s;
    int64_t head, i;
    double q[D_MAX];
} redo;

/* The bias of key j; -inf hides the key, whose K and V are then not read. */
static double bias_of(const redo *r, int64_t j) {
    const att_problem *p = r->job->p;
    if (!(p->features & ATT_BIAS))
        return 0.0;
    const int64_t at = att_cpu_bias_offset(p, r->s, r->head, r->i) + j * p->bias.col;
    const float b = att_load(r->job->a->bias, p->bias_dtype, at);
    if (p->bias_dtype == ATT_BOOL8)
        return b != 0.0f ? 0.0 : -INFINITY;
    return (double)b;
}

/* The logit of key j; -inf if the bias hides it. */
static double logit(const redo *r, int64_t j) {
    const att_problem *p = r->job->p;
    const double bias = bias_of(r, j);
    if (bias == -INFINITY)
        return -INFINITY;
    const int64_t k = att_cpu_kv_offset(r->job, r->s, &p->k, j);
    double t = 0.0;
    for (int64_t x = 0; x < p->d_qk; x++)
        t += r->q[x] * (double)att_load(r->job->a->k, p->dtype, k + x);
    t *= (double)p->scale;
    if (p->softcap > 0.0f)
        t = (double)p->softcap * tanh(t / (double)p->softcap);
    if (p->features & ATT_ALIBI)
        t -= (double)att_cpu_slope(r->job, r->s->batch, r->head) *
             fabs((double)(r->i + r->s->shift - j));
    return t + bias;
}

void att_cpu_redo_row(const att_cpu_job *job, const att_cpu_sequence *s, int64_t head,
                      int64_t i) {
    const att_problem *p = job->p;
    redo r = {.job = job, .s = s, .head = head, .i = i};
    const char *q = att_cpu_q_row(job, s, head, i);
    for (int64_t x = 0; x < p->d_qk; x++)
        r.q[x] = (double)att_load(q, p->dtype, x);

    const att_cpu_interval seen = att_cpu_visible(p, s, i);
    double top = p->features & ATT_SINKS ? (double)job->a->sinks[head] : -INFINITY;
    bool nan = false;
    for (int64_t j = seen.lo; j < seen.hi; j++) {
        const double t = logit(&r, j);
        nan = nan || isnan(t);
        top = t > top ? t : top;
    }
    double o[D_MAX] = {0.0}, sum = 0.0;
    const double base = top == -INFINITY ? 0.0 : top;
    if (p->features & ATT_SINKS)
        sum = exp((double)job->a->sinks[head] - base);
    for (int64_t j = seen.lo; j < seen.hi; j++) {
        if (bias_of(&r, j) == -INFINITY)
            continue;
        const double weight = nan ? (double)NAN : exp(logit(&r, j) - base);
        const int64_t v = att_cpu_kv_offset(job, s, &p->v, j);
        sum += weight;
        for (int64_t x = 0; x < p->d_v; x++)
            o[x] += weight * (double)att_load(job->a->v, p->dtype, v + x);
    }
    const int64_t out = att_cpu_o_offset(p, s, head, i);
    for (int64_t x = 0; x < p->d_v; x++)
        att_store(job->a->o, p->dtype_o, out + x, sum == 0.0 ? 0.0f : (float)(o[x] / sum));
    if (p->features & ATT_LSE)
        job->a->lse[att_cpu_lse_offset(p, s, head, i)] = (float)(base + log(sum));
}
