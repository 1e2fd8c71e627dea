/* hopper.h: planning and launching fwd_sm90: one block per SM takes tile after tile; its
 * producer has the copy engine load Q, K and V through tensor maps that are encoded once per
 * plan. */
#ifndef ATT_CUDA_HOPPER_H
#define ATT_CUDA_HOPPER_H

#include "attention/cuda/tiling.h"

/* Why the kernel cannot serve the problem, apart from dtype, head dimensions and 16-byte
 * alignment of rows, or NULL; *field is then the field at fault. */
const char *att_cuda_hopper_refusal(const att_cuda_kernel *kernel, const att_problem *p,
                                    const char **field);

/* log2 of the query heads that share a tile: all heads of a group, if one head's rows would not
 * fill it. */
int att_cuda_hopper_pack(const att_cuda_kernel *kernel, const att_problem *p);

/* Tiles of rows in the problem; INT64_MAX if there are too many to count. */
int64_t att_cuda_hopper_tiles(const att_cuda_kernel *kernel, const att_problem *p);

/* Blocks for this many tiles: one per SM, each of which takes tile after tile, or, for the
 * small rows, one block per tile. */
int64_t att_cuda_hopper_blocks(const att_cuda_kernel *kernel, int64_t tiles, int sms);

/* att_family.cut and .run. With a grid of 0 blocks nothing is launched. */
att_status att_cuda_hopper_cut(void *state, size_t *workspace, const att_context *ctx,
                               const att_kernel_row *row, const void *problem);
att_status att_cuda_hopper_run(const att_plan *plan, const void *args, void *workspace,
                               void *stream);

#endif
