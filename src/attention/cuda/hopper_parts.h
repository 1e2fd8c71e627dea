/* hopper_parts.h: how many parts fwd_sm90 splits the keys into, and the predicted time of a
 * problem. */
#ifndef ATT_CUDA_HOPPER_PARTS_H
#define ATT_CUDA_HOPPER_PARTS_H

#include "core/kernel_row.h"

typedef struct att_cuda_parts {
    int count;
    double ns; /* until all rows are merged, from times fitted on an H200 */
} att_cuda_parts;

/* The fastest number of parts, from the row's times: two or more of a problem that must have more
 * than one tile of keys, or one or more if O is of another type than Q, which only the kernel that
 * merges parts writes. */
att_cuda_parts att_cuda_hopper_parts(const att_kernel_row *row, int sms, const att_problem *p);

#endif
