/* merge_oracle.c: the formula, in float64 and in float32. */
#include "merge/ref/merge_oracle.h"

#include <math.h>

#include "base/dtype.h"

static int64_t index_of(const att_strides *s, int64_t b, int64_t h, int64_t i) {
    return b * s->batch + h * s->head + i * s->row;
}

void att_merge_ref_row(const att_merge_problem *p, const att_merge_args *a, int64_t b,
                       int64_t h, int64_t i, double *o, double *lse) {
    const int64_t at_lse = index_of(&p->part_lse, b, h, i);
    const int64_t at_o = index_of(&p->part_o, b, h, i);
    double top = -INFINITY, sum = 0.0;
    for (int64_t n = 0; n < p->parts; n++)
        top = fmax(top, (double)a->part_lse[n][at_lse]);
    for (int64_t c = 0; c < p->d; c++)
        o[c] = 0.0;
    for (int64_t n = 0; n < p->parts; n++) {
        const double own = (double)a->part_lse[n][at_lse];
        if (own == -INFINITY) /* an empty part is ignored */
            continue;
        const double weight = own == top ? 1.0 : exp(own - top);
        sum += weight;
        if ((float)weight == 0.0f) /* so is one whose weight underflows float32 */
            continue;
        for (int64_t c = 0; c < p->d; c++)
            o[c] += weight * (double)att_load(a->part_o[n], p->dtype, at_o + c);
    }
    for (int64_t c = 0; c < p->d && sum != 0.0; c++)
        o[c] /= sum;
    *lse = sum == 0.0 ? -INFINITY : top + log(sum);
}

void att_merge_plain_row(const att_merge_problem *p, const att_merge_args *a, int64_t b,
                         int64_t h, int64_t i, float *o, float *lse) {
    const int64_t at_lse = index_of(&p->part_lse, b, h, i);
    const int64_t at_o = index_of(&p->part_o, b, h, i);
    float top = -INFINITY, sum = 0.0f;
    for (int64_t n = 0; n < p->parts; n++)
        top = fmaxf(top, a->part_lse[n][at_lse]);
    for (int64_t c = 0; c < p->d; c++)
        o[c] = 0.0f;
    for (int64_t n = 0; n < p->parts; n++) {
        const float own = a->part_lse[n][at_lse];
        const float weight = own == -INFINITY ? 0.0f : own == top ? 1.0f : expf(own - top);
        sum += weight;
        for (int64_t c = 0; c < p->d && weight != 0.0f; c++)
            o[c] += weight * att_load(a->part_o[n], p->dtype, at_o + c);
    }
    for (int64_t c = 0; c < p->d && sum != 0.0f; c++) {
        float stored = 0.0f;
        att_store(&stored, p->dtype_o, 0, o[c] / sum);
        o[c] = att_load(&stored, p->dtype_o, 0);
    }
    *lse = sum == 0.0f ? -INFINITY : top + logf(sum);
}
