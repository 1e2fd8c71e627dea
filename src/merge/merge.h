/* merge.h: shared declarations of the merge operation. */
#ifndef ATT_MERGE_MERGE_H
#define ATT_MERGE_MERGE_H

#include <stddef.h>

#include "attest.h"

/* Sizes in 0.2, the first release with merge. */
enum {
    ATT_MERGE_PROBLEM_0_2 = sizeof(att_merge_problem),
    ATT_MERGE_ARGS_0_2 = sizeof(att_merge_args)
};

/* Bytes from the first to one past the last element of a tensor. */
typedef struct att_merge_extents {
    int64_t part_o, part_lse, o, lse;
} att_merge_extents;

att_status att_merge_problem_check(const void *problem, void *extents);

/* Element index of row i of head h in batch entry b. */
static inline int64_t att_merge_index(const att_strides *s, int64_t b, int64_t h, int64_t i) {
    return b * s->batch + h * s->head + i * s->row;
}

/* The alignment that GPU kernels may assume for the bases of o and of the parts. */
static inline size_t att_merge_base_alignment(const att_merge_problem *p) {
    enum { VECTOR = 16 };
    return p->alignment == 0 || p->alignment > VECTOR ? VECTOR : (size_t)p->alignment;
}

#endif
