/* hopper_choice.h: which of Hopper's tiles is fastest for a problem. */
#ifndef ATT_CUDA_HOPPER_CHOICE_H
#define ATT_CUDA_HOPPER_CHOICE_H

#include "core/family.h"

/* Keys per copy of K or V: a tile's, or with pages the most that divide both a tile and a page.
 * 0 if that is not a multiple of the 8 rows that are swizzled together. */
int att_cuda_hopper_copy_rows(int tile_n, const att_problem *p);

/* The predicted time of the kernel's tiles in nanoseconds, with the keys of each in `parts`
 * parts; without merging the parts. */
double att_cuda_hopper_time(const att_cuda_kernel *kernel, const att_row_times *t, int sms,
                            const att_problem *p, int parts);

/* att_family.estimate in nanoseconds, from the row's times. The decode kernels, which compete
 * where others may be faster, use their own model. */
double att_cuda_hopper_estimate(const att_kernel_row *row, const att_limits *limits,
                                const void *problem);

#endif
