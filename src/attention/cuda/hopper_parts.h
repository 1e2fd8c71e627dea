/* hopper_parts.h: into how many parts fwd_sm90 splits the keys, and when a problem ends with so many. */
#ifndef ATT_CUDA_HOPPER_PARTS_H
#define ATT_CUDA_HOPPER_PARTS_H

#include "core/kernel_row.h"

typedef struct att_cuda_parts {
    int count;
    double ns; /* until all rows are merged, by times fitted on an H200 */
} att_cuda_parts;

/* The parts, two or more, that end soonest, by the row's times. For a problem with more than one tile of keys. */
att_cuda_parts att_cuda_hopper_parts(const att_kernel_row *row, int sms, const att_problem *p);

#endif
