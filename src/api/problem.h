/* problem.h: is this a problem that makes sense at all? */
#ifndef ATT_API_PROBLEM_H
#define ATT_API_PROBLEM_H

#include "attest.h"

/* Bytes from the first to one past the last element that a tensor of these strides touches. */
typedef struct att_extents {
    int64_t q, k, v, o, lse, alibi, bias, sinks, cu_seqlens, lens_k, page_table;
} att_extents;

/* Check every field of `p`, and measure the tensors. */
att_status att_problem_check(const att_problem *p, att_extents *extents);

/* Pages that one batch entry's keys take. */
int64_t att_problem_pages(const att_problem *p);

#endif
