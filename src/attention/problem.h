/* problem.h: validates problems. */
#ifndef ATT_ATTENTION_PROBLEM_H
#define ATT_ATTENTION_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>

#include "attest.h"

/* Sizes in 0.1, the first release: up to the first field that was added later. */
enum {
    ATT_PROBLEM_0_1 = offsetof(att_problem, alignment),
    ATT_ARGS_0_1 = offsetof(att_args, starts_k)
};

/* And the first with gradients: the minimum sizes of a problem and of the arguments of a
 * backward pass. */
enum {
    ATT_BACKWARD_PROBLEM_0_2 = offsetof(att_problem, q_offset),
    ATT_BACKWARD_ARGS_0_2 = offsetof(att_args, q_offsets)
};

/* Features that let sequences differ in length, or in which keys are in use. */
#define ATT_LENGTHS_VARY (ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LENS_K | ATT_STARTS_K)

/* Positions that differ between batch entries. */
#define ATT_OFFSETS_VARY (ATT_Q_OFFSETS | ATT_K_OFFSETS)

/* Bytes from the first to one past the last element that a tensor of these strides touches. */
typedef struct att_extents {
    int64_t q, k, v, o, lse, alibi, bias, sinks, cu_seqlens, lens_k, page_table;
} att_extents;

/* Check every field of `p`, and measure the tensors. */
att_status att_problem_check(const att_problem *p, att_extents *extents);

/* Check the lengths and page ids of a run, which must be in memory that the host can read. */
att_status att_attention_check_data(const void *problem, const void *args);

/* Whether the diagonal is that of the last row and key, not of the first ones. */
bool att_problem_is_bottom_right(const att_problem *p);

/* Pages per batch entry. */
int64_t att_problem_pages(const att_problem *p);

#endif
