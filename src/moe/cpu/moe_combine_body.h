/* moe_combine_body.h: the weighted sum over the experts of a token, over the vf of the
 * including file. */
#ifndef ATT_MOE_CPU_COMBINE_BODY_H
#define ATT_MOE_CPU_COMBINE_BODY_H

#include "moe/cpu/moe_job.h"

/* Columns [begin, begin + columns) of y of every token of the chunk. `parts` has the second
 * product of every position in these columns, `step` floats apart. */
static void combine_tokens(const att_moe_job *job, int64_t begin, int64_t columns,
                           const float *parts, int64_t step) {
    const att_moe_problem *p = job->p;
    const int64_t k = p->experts_per_token, out = att_dtype_bytes(p->dtype_y),
                  bias = att_dtype_bytes(p->dtype_bias);
    for (int64_t t = 0; t < job->tokens; t++) {
        char *y = (char *)job->a->y + ((job->first_token + t) * p->y_row + begin) * out;
        for (int64_t c = 0; c < columns; c += VF_W) {
            const int64_t count = att_min(columns - c, VF_W);
            vf sum = vf_set1(0.0f);
            for (int64_t s = t * k; s < (t + 1) * k; s++) {
                if (job->position_of[s] < 0)
                    continue;
                vf part = vf_load_as(parts + job->position_of[s] * step + c, ATT_F32, count);
                if (p->features & ATT_MOE_BIAS2)
                    part = vf_add(
                        part, vf_load_as((const char *)job->a->b2 +
                                             ((job->ids[s] - p->first_expert) * p->b2_expert +
                                              begin + c) *
                                                 bias,
                                         p->dtype_bias, count));
                sum = vf_muladd(vf_set1(job->weights[s]), part, sum);
            }
            vf_store_as(y + c * out, p->dtype_y, sum, count);
        }
    }
}

#endif
