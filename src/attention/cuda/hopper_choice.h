/* hopper_choice.h: which of Hopper's tiles ends a problem soonest. */
#ifndef ATT_CUDA_HOPPER_CHOICE_H
#define ATT_CUDA_HOPPER_CHOICE_H

#include "core/family.h"

/* Keys of one copy of K or V: a tile's, or with pages the most that divide both a tile and a page.
 * 0 where that is no multiple of the 8 rows that are swizzled together. */
int att_cuda_hopper_copy_rows(int tile_n, const att_problem *p);

/* When the kernel's tiles, the keys of each in `parts` parts, are done, in nanoseconds; merging the parts comes after. */
double att_cuda_hopper_time(const att_cuda_kernel *kernel, const att_row_times *t, int sms,
                            const att_problem *p, int parts);

/* att_family.estimate, in nanoseconds, from the row's times; of the decode kernels, which compete
 * where others may end sooner, from their own model. */
double att_cuda_hopper_estimate(const att_kernel_row *row, const att_limits *limits,
                                const void *problem);

#endif
