/* moe.h: shared declarations of the moe operation. */
#ifndef ATT_MOE_MOE_H
#define ATT_MOE_MOE_H

#include <stdbool.h>
#include <stddef.h>

#include "attest.h"

/* Sizes in the first release with moe. */
enum {
    ATT_MOE_PROBLEM_FIRST = sizeof(att_moe_problem),
    ATT_MOE_ARGS_FIRST = sizeof(att_moe_args)
};

/* Bytes from the first to one past the last element of an array; 0: never accessed. */
typedef struct att_moe_extents {
    int64_t x, logits, correction, mask, given_ids, given_weights;
    int64_t w1, w2, w3, b1, b2, b3;
    int64_t y, ids, weights, counts;
} att_moe_extents;

att_status att_moe_problem_check(const void *problem, void *extents);

/* Check the data of a run that the host can read: the given ids. */
att_status att_moe_check_data(const void *problem, const void *args);

static inline bool att_moe_is_gated(const att_moe_problem *p) {
    return p->activation <= ATT_MOE_SWIGLU_CLAMPED;
}

static inline bool att_moe_is_apart(const att_moe_problem *p) {
    return att_moe_is_gated(p) && p->gate == ATT_MOE_APART;
}

/* Rows of w1, or columns if it is transposed: gate and up, one of them, or the only product
 * without a gate. */
static inline int64_t att_moe_w1_rows(const att_moe_problem *p) {
    return att_moe_is_gated(p) && p->gate != ATT_MOE_APART ? 2 * p->inner : p->inner;
}

/* The alignment that GPU kernels may assume for the bases of x, y and the weights. */
static inline size_t att_moe_base_alignment(const att_moe_problem *p) {
    enum { VECTOR = 16 };
    return p->alignment == 0 || p->alignment > VECTOR ? VECTOR : (size_t)p->alignment;
}

#endif
