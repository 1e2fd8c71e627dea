/* hopper_choice.h: which of Hopper's tiles ends a problem soonest. */
#ifndef ATT_CUDA_HOPPER_CHOICE_H
#define ATT_CUDA_HOPPER_CHOICE_H

#include "core/family.h"

/* Keys of one copy of K or V: a tile's, or with pages the most that divide both a tile and a page.
 * 0 where that is no multiple of the 8 rows that are swizzled together. */
int att_cuda_hopper_copy_rows(int tile_n, const att_problem *p);

/* att_family.estimate, in nanoseconds, from the row's times. */
double att_cuda_hopper_estimate(const att_kernel_row *row, const att_limits *limits,
                                const void *problem);

#endif
