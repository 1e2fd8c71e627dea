/* merge_body.h: the CPU kernel of merge, over the vf of the including file, which defines ISA
 * as its name. */
#ifndef ATT_MERGE_CPU_BODY_H
#define ATT_MERGE_CPU_BODY_H

#include <math.h>

#include "base/dtype.h"
#include "merge/cpu/merge_code.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)
#define MERGE       JOIN(merge_cpu_, ISA)

/* The weights of a row's parts, which sum to 1 unless all parts are empty; returns its
 * log-sum-exp. */
static float weigh_parts(const att_merge_problem *p, const att_merge_args *a, int64_t at,
                         float weights[ATT_MERGE_PARTS_MAX]) {
    float top = -INFINITY, sum = 0.0f;
    for (int64_t n = 0; n < p->parts; n++)
        top = fmaxf(top, a->part_lse[n][at]);
    for (int64_t n = 0; n < p->parts; n++) {
        const float own = a->part_lse[n][at];
        weights[n] = own == -INFINITY ? 0.0f : own == top ? 1.0f : expf(own - top);
        sum += weights[n];
    }
    if (sum == 0.0f)
        return -INFINITY;
    for (int64_t n = 0; n < p->parts; n++)
        weights[n] /= sum;
    return top + logf(sum);
}

static void merge_row(const att_merge_problem *p, const att_merge_args *a, int64_t b, int64_t h,
                      int64_t i) {
    const int64_t in = att_dtype_bytes(p->dtype), out = att_dtype_bytes(p->dtype_o);
    const int64_t at_part = att_merge_index(&p->part_o, b, h, i) * in;
    char *row = (char *)a->o + att_merge_index(&p->o, b, h, i) * out;
    float weights[ATT_MERGE_PARTS_MAX];
    const float lse = weigh_parts(p, a, att_merge_index(&p->part_lse, b, h, i), weights);
    for (int64_t c = 0; c < p->d; c += VF_W) {
        const int64_t count = p->d - c < VF_W ? p->d - c : VF_W;
        vf sum = vf_set1(0.0f);
        for (int64_t n = 0; n < p->parts; n++)
            if (weights[n] != 0.0f) /* an empty part may hold NaN */
                sum = vf_muladd(
                    vf_set1(weights[n]),
                    vf_load_as((const char *)a->part_o[n] + at_part + c * in, p->dtype, count),
                    sum);
        vf_store_as(row + c * out, p->dtype_o, sum, count);
    }
    if (p->features & ATT_LSE)
        a->lse[att_merge_index(&p->lse, b, h, i)] = lse;
}

static void merge_rows(const att_merge_problem *p, const att_merge_args *a, int64_t begin,
                       int64_t end) {
    if (begin >= end)
        return;
    int64_t i = begin % p->seq, h = begin / p->seq % p->heads, b = begin / p->seq / p->heads;
    for (int64_t row = begin; row < end; row++) {
        merge_row(p, a, b, h, i);
        if (++i == p->seq) {
            i = 0;
            if (++h == p->heads) {
                h = 0;
                b++;
            }
        }
    }
}

extern const att_cpu_kernel MERGE;

static void run_merge(const att_merge_problem *p, const att_merge_args *a, int64_t begin,
                      int64_t end) {
    if (begin == 0 && a->launch)
        a->launch->kernel = MERGE.id;
    merge_rows(p, a, begin, end);
}

static const att_merge_code code = {.rows = run_merge};
const att_cpu_kernel MERGE = {.id = TEXT(MERGE), .code = &code};

#endif
