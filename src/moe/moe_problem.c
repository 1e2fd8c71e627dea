/* moe_problem.c: fills in moe problems. */
#include <string.h>

#include "moe/moe.h"

/* a * b, wrapping on overflow: filling in does not check. */
static int64_t times(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

void att_moe_problem_init_sized(att_moe_problem *problem, size_t size, int64_t tokens,
                                int64_t hidden, int64_t inner, int64_t experts,
                                int64_t experts_per_token, att_dtype dtype) {
    att_moe_problem p = {.size = size,
                         .flags = ATT_MOE_RENORMALISE,
                         .dtype = dtype,
                         .dtype_y = dtype,
                         .dtype_logits = ATT_F32,
                         .dtype_bias = dtype,
                         .scaling = 1.0f,
                         .alpha = 1.702f,
                         .limit = 7.0f,
                         .tokens = tokens,
                         .hidden = hidden,
                         .inner = inner,
                         .experts = experts,
                         .experts_per_token = experts_per_token,
                         .local_experts = experts,
                         .groups = 1,
                         .groups_kept = 1};
    att_moe_problem_layout(&p);
    memset(problem, 0, size);
    memcpy(problem, &p, size < sizeof p ? size : sizeof p);
}

void att_moe_problem_layout(att_moe_problem *p) {
    const bool transposed = p->flags & ATT_MOE_TRANSPOSED;
    const int64_t rows = att_moe_w1_rows(p);
    p->x_row = p->y_row = p->hidden;
    p->logits_row = p->experts;
    p->w1 = (att_moe_strides){.expert = times(rows, p->hidden),
                              .row = transposed ? rows : p->hidden};
    p->w3 = (att_moe_strides){.expert = times(p->inner, p->hidden),
                              .row = transposed ? p->inner : p->hidden};
    p->w2 = (att_moe_strides){.expert = times(p->inner, p->hidden),
                              .row = transposed ? p->hidden : p->inner};
    p->b1_expert = rows;
    p->b3_expert = p->inner;
    p->b2_expert = p->hidden;
}
