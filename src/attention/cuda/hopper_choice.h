/* hopper_choice.h: which of Hopper's tiles ends a problem soonest. */
#ifndef ATT_CUDA_HOPPER_CHOICE_H
#define ATT_CUDA_HOPPER_CHOICE_H

#include "core/family.h"

/* Do copies of pages, if K and V come in any, fill tiles of `tile_n` keys? */
bool att_cuda_hopper_takes_pages(int tile_n, const att_problem *p);

/* att_family.estimate, in nanoseconds, from the row's times. */
double att_cuda_hopper_estimate(const att_kernel_row *row, const att_limits *limits,
                                const void *problem);

#endif
