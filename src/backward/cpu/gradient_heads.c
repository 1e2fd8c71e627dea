/* gradient_heads.c: the gradients with one number per head: sinks and slopes. */
#include "backward/cpu/gradient_heads.h"

#include "backward/cpu/exact.h"

/* The sum over the keys of d_s * distance, recomputed in float64 if it overflowed float32. */
static double slope_sum(const att_gradient_job *job, const att_cpu_sequence *s, int64_t r) {
    const int64_t at = att_gradient_first_row(job, s) + r;
    const att_row_fact *fact = &job->facts[at];
    if (fact->hi <= fact->lo)
        return 0.0;
    if (isfinite(job->slopes[at]) || !att_row_is_sound(fact))
        return job->slopes[at];
    att_exact_row row;
    att_exact_row_load(&row, job, s, r, fact);
    double sum = 0.0;
    for (int64_t j = fact->lo; j < fact->hi; j++)
        sum += att_exact_pair_of(&row, j).d_s * fabs((double)(row.position + s->shift - j));
    return sum;
}

void att_gradient_store_head(const att_gradient_job *job, int64_t head) {
    const att_problem *p = job->base.p;
    const att_args *a = job->base.a;
    const int64_t group = job->cut->tiling.group;
    double sink = 0.0, slope = 0.0;
    for (int64_t b = 0; b < p->batch; b++) {
        const att_cpu_sequence s = att_cpu_sequence_of(p, a, b, head / group);
        const att_row_fact *facts = job->facts + att_gradient_first_row(job, &s);
        for (int64_t i = 0; i < s.len_q; i++) {
            const int64_t r = i * group + head % group;
            if (p->gradients & ATT_D_SINKS && facts[r].lse != -INFINITY)
                sink -= exp((double)a->sinks[head] - facts[r].lse) * (double)facts[r].delta;
            if (p->gradients & ATT_D_ALIBI)
                slope -= slope_sum(job, &s, r);
        }
        if (p->gradients & ATT_D_ALIBI && p->alibi_stride_batch != 0) {
            a->d_alibi[b * p->alibi_stride_batch + head] = (float)slope;
            slope = 0.0;
        }
    }
    if (p->gradients & ATT_D_ALIBI && p->alibi_stride_batch == 0)
        a->d_alibi[head] = (float)slope;
    if (p->gradients & ATT_D_SINKS)
        a->d_sinks[head] = (float)sink;
}
