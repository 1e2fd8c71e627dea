/* gradient_prepare_body.h: what is known about rows before any key is processed, over the vf of
 * the including file. */
#ifndef ATT_BACKWARD_CPU_GRADIENT_PREPARE_BODY_H
#define ATT_BACKWARD_CPU_GRADIENT_PREPARE_BODY_H

#include "attention/cpu/hidden_ends.h"
#include "backward/cpu/addresses.h"
#include "backward/cpu/exact.h"

/* dot(d_o, o). *probe becomes NaN if one of them is not finite; *most is raised to the largest
 * number in d_o. */
static float delta_of(const att_problem *p, const char *d_o, const char *o, vf *probe,
                      vf *most) {
    const int64_t bytes = att_dtype_bytes(p->dtype_o);
    vf sum = vf_set1(0.0f);
    for (int64_t x = 0; x < p->d_v; x += VF_W) {
        const vf a = vf_load_as(d_o + x * bytes, p->dtype_o, p->d_v - x);
        const vf b = vf_load_as(o + x * bytes, p->dtype_o, p->d_v - x);
        *probe = vf_muladd(a, vf_set1(0.0f), vf_muladd(b, vf_set1(0.0f), *probe));
        *most = vf_max(vf_abs(a), *most);
        sum = vf_muladd(a, b, sum);
    }
    return vf_reduce_add(sum);
}

/* Does a bias with any strides leave the row a key? */
static bool sees_a_key(const att_gradient_job *job, const att_cpu_sequence *s, att_cpu_query q,
                       att_cpu_interval seen) {
    const att_problem *p = job->base.p;
    if (!(p->features & ATT_BIAS) || p->bias.col == 1)
        return seen.hi > seen.lo; /* keys hidden at its ends are already excluded */
    const int64_t bytes = att_dtype_bytes(p->bias_dtype);
    const char *row =
        (const char *)job->base.a->bias + att_cpu_bias_offset(p, s, q.head, q.position) * bytes;
    for (int64_t j = seen.lo; j < seen.hi; j++)
        if (!att_cpu_hides(row + j * p->bias.col * bytes, bytes,
                           att_cpu_hiding_bits(p->bias_dtype)))
            return true;
    return false;
}

static att_row_fact fact_of(const att_gradient_job *job, const att_cpu_sequence *s, int64_t r,
                            vf *most) {
    const att_problem *p = job->base.p;
    const att_args *a = job->base.a;
    const att_cpu_query q = att_cpu_query_of(&job->base, s, r);
    const float lse = a->lse[att_cpu_lse_offset(p, s, q.head, q.position)];
    if (lse == -INFINITY)
        return (att_row_fact){.lse = -INFINITY, .lse_fast = -INFINITY};
    const att_cpu_interval seen =
        att_cpu_without_hidden_ends(&job->base, s, q, att_cpu_visible(p, s, q.position));
    if (!sees_a_key(job, s, q, seen)) /* whatever its d_o holds */
        return (att_row_fact){.lse = (double)lse, .lse_fast = lse};
    const int64_t bytes = att_dtype_bytes(p->dtype_o), bytes_q = att_dtype_bytes(p->dtype);
    const char *d_o =
        (const char *)a->d_o + att_query_offset(p, &p->grad_o, s, q.head, q.position) * bytes;
    const char *o =
        (const char *)a->o + att_query_offset(p, &p->o, s, q.head, q.position) * bytes;
    const char *row = att_cpu_q_row(&job->base, s, q.head, q.position);
    vf probe = vf_set1(0.0f); /* x * 0 is NaN if x is not finite */
    const float delta = delta_of(p, d_o, o, &probe, most);
    for (int64_t x = 0; x < p->d_qk; x += VF_W)
        probe = vf_muladd(vf_load_as(row + x * bytes_q, p->dtype, p->d_qk - x), vf_set1(0.0f),
                          probe);
    const bool sound = isfinite(vf_reduce_add(probe)) && !isnan(lse);
    const bool fast = sound && fabs((double)lse) <= ATT_BACKWARD_LSE_MOST;
    att_row_fact fact = {.lse = (double)lse,
                         .lo = seen.lo,
                         .hi = seen.hi,
                         .lse_fast = fast ? lse : NAN,
                         .delta = delta};
    if (!sound)
        fact.lse = (double)NAN;
    else if (!fast)
        fact.lse = att_exact_lse(job, s, r, seen);
    return fact;
}

static void store_zeros(void *base, att_dtype dtype, int64_t at, int64_t n) {
    const int64_t bytes = att_dtype_bytes(dtype);
    memset((char *)base + at * bytes, 0, (size_t)(n * bytes));
}

/* A block that sees no key: its rows, and their d_q. */
static void store_unseen_rows(const att_gradient_job *job, const att_cpu_sequence *s,
                              int64_t row0, int64_t rows) {
    const att_problem *p = job->base.p;
    for (int64_t r = row0; r < row0 + rows; r++) {
        const att_cpu_query q = att_cpu_query_of(&job->base, s, r);
        store_zeros(job->base.a->d_q, p->dtype_grad,
                    att_query_offset(p, &p->grad_q, s, q.head, q.position), p->d_qk);
    }
}

static void prepare_block(const att_gradient_job *job, int64_t index) {
    const att_gradient_cut *c = job->cut;
    const att_cpu_sequence s = att_gradient_pair(job, index / c->blocks);
    const int64_t block = index % c->blocks, row0 = block * c->block_rows;
    const int64_t rows = att_min(c->block_rows, s.len_q * c->tiling.group - row0);
    att_row_fact *facts = job->facts + att_gradient_first_row(job, &s);
    if (rows <= 0)
        return;
    att_cpu_interval keys = {INT64_MAX, 0};
    vf most = vf_set1(0.0f);
    for (int64_t r = row0; r < row0 + rows; r++) {
        facts[r] = fact_of(job, &s, r, &most);
        if (facts[r].hi > facts[r].lo) {
            keys.lo = att_min(keys.lo, facts[r].lo);
            keys.hi = att_max(keys.hi, facts[r].hi);
        }
    }
    att_block_fact *fact = &job->block_facts[att_gradient_first_block(job, &s) + block];
    fact->keys = keys;
    fact->d_o_most = vf_reduce_max(most);
    atomic_init(&fact->turn, keys.lo / c->chunk_keys);
    if (keys.hi <= keys.lo)
        store_unseen_rows(job, &s, row0, rows);
}

#endif
