/* finish_body.h: normalises and stores a row, after merging its splits if there are any. */
#ifndef ATT_CPU_FINISH_BODY_H
#define ATT_CPU_FINISH_BODY_H

#include <math.h>

#include "attention/cpu/hidden_ends.h"
#include "attention/cpu/redo.h"
#include "attention/cpu/softmax_body.h"

/* Is there a key that neither the mask nor the bias hides from the row? */
static bool sees_a_key(const att_cpu_job *job, const att_cpu_sequence *s, att_cpu_query q) {
    const att_cpu_interval seen =
        att_cpu_without_hidden_ends(job, s, q, att_cpu_visible(job->p, s, q.position));
    return seen.hi > seen.lo;
}

/* Divide by the sum (and the sink), round, store O and LSE of packed row r.
 *
 * o       accumulator
 * top, l  the score that the weights are relative to, and the sum of the weights
 *
 * A result that is not finite, or a row that sees keys but has no weight, may come from values
 * that the mask hides or from float32 overflow. Such a row is recomputed exactly, in
 * float64. So is a row whose log-sum overflows before it meets the sink. */
static void finish_row(const att_cpu_job *job, const att_cpu_sequence *s, int64_t r,
                       const float *o, float top, float l) {
    const att_problem *p = job->p;
    const att_cpu_query q = att_cpu_query_of(job, s, r);
    const int64_t i = q.position, head = q.head;
    float scale = l > 0.0f ? 1.0f / l : 0.0f;
    float lse = -INFINITY;
    bool lost = !(l > 0.0f) && sees_a_key(job, s, q);
    if (l > 0.0f && (p->features & (ATT_LSE | ATT_SINKS)))
        lse = top * natural_factor(p) + logf(l);
    if (p->features & ATT_SINKS) {
        lost = lost || (l > 0.0f && !isfinite(lse));
        const float sink = job->a->sinks[head];
        const float most = fmaxf(sink, lse);
        const float total =
            most == -INFINITY ? -INFINITY : most + logf(expf(sink - most) + expf(lse - most));
        scale = l > 0.0f ? scale * expf(lse - total) : 0.0f;
        lse = total;
    }
    const int64_t bytes = att_dtype_bytes(p->dtype_o);
    char *out = (char *)job->a->o + att_cpu_o_offset(p, s, head, i) * bytes;
    const int64_t whole = p->d_v / VF_W * VF_W;
    vf probe = vf_set1(0.0f); /* x * 0 is NaN if x is not finite */
    for (int64_t x = 0; x < whole; x += VF_W) {
        const vf value = vf_load(o + x);
        probe = vf_muladd(value, vf_set1(0.0f), probe);
        vf_store_as(out + x * bytes, p->dtype_o, vf_mul(value, vf_set1(scale)), VF_W);
    }
    if (whole < p->d_v) {
        const vf value = vf_between(vf_load(o + whole), 0, p->d_v - whole, 0.0f);
        probe = vf_muladd(value, vf_set1(0.0f), probe);
        vf_store_as(out + whole * bytes, p->dtype_o, vf_mul(value, vf_set1(scale)),
                    p->d_v - whole);
    }
    if (p->features & ATT_LSE)
        job->a->lse[att_cpu_lse_offset(p, s, head, i)] = lse;
    if (lost || !isfinite(vf_reduce_add(probe)) || !isfinite(l))
        att_cpu_redo_row(job, s, head, i);
}

/* Store a row of one split for combine_task(). */
static void keep_partial(const att_cpu_job *job, int64_t partial_row, const float *o, float top,
                         float l) {
    const int64_t width = att_cpu_partial_width(job->p);
    float *to = job->partials + partial_row * att_cpu_partial_stride(job->p);
    for (int64_t x = 0; x < width; x += VF_W)
        vf_store(to + x, vf_load(o + x));
    to[width] = top;
    to[width + 1] = l;
}

/* Row r of a task has seen all its keys. */
static void end_row(const att_cpu_job *job, const att_cpu_task *task, int64_t r, const float *o,
                    float top, float l) {
    if (job->t->splits > 1)
        keep_partial(job, task->partial + r, o, top, l);
    else
        finish_row(job, &task->s, task->row0 + r, o, top, l);
}

/* Merge the splits of `index` (a task of split 0) in order and finish its rows. */
static void combine_task(const att_cpu_job *job, int64_t index) {
    const att_cpu_task task = att_cpu_task_of(job, index);
    const int64_t width = att_cpu_partial_width(job->p),
                  stride = att_cpu_partial_stride(job->p);
    const float factor = logit_factor(job->p);
    for (int64_t r = 0; r < task.rows; r++) {
        float *first = job->partials + (task.partial + r) * stride;
        float top = -INFINITY, l = 0.0f;
        for (int64_t k = 0; k < job->t->splits; k++)
            top = fmaxf(top, first[k * job->t->rows * stride + width]);
        for (int64_t k = 0; k < job->t->splits; k++) {
            float *part = first + k * job->t->rows * stride;
            const float alpha =
                part[width] == -INFINITY ? 0.0f : exp2f((part[width] - top) * factor);
            l += alpha * part[width + 1];
            for (int64_t x = 0; x < width; x += VF_W) {
                const vf sum = k ? vf_load(first + x) : vf_set1(0.0f);
                vf_store(first + x, vf_muladd(vf_load(part + x), vf_set1(alpha), sum));
            }
        }
        finish_row(job, &task.s, task.row0 + r, first, top, l);
    }
}

#endif
