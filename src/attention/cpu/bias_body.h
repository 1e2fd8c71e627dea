/* bias_body.h: the bias of some keys as a vector, over the vf of the including file. */
#ifndef ATT_CPU_BIAS_BODY_H
#define ATT_CPU_BIAS_BODY_H

#include <math.h>

#include "attention/cpu/job.h"

/* Bias of keys x .. x+n-1 of the row that begins at element `offset`; 0 or -inf for a boolean
 * one. */
static vf bias_load(const att_problem *p, const void *bias, int64_t offset, int64_t x,
                    int64_t n) {
    if (p->bias.col == 1) {
        const char *first = (const char *)bias + (offset + x) * att_dtype_bytes(p->bias_dtype);
        return p->bias_dtype == ATT_BOOL8 ? vf_load_hiding(first, n)
                                          : vf_load_as(first, p->bias_dtype, n);
    }
    float lanes[VF_W] = {0.0f};
    for (int64_t k = 0; k < n && k < VF_W; k++) {
        const float b = att_load(bias, p->bias_dtype, offset + (x + k) * p->bias.col);
        lanes[k] = p->bias_dtype != ATT_BOOL8 ? b : b != 0.0f ? 0.0f : -INFINITY;
    }
    return vf_load(lanes);
}

#endif
