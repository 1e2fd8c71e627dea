/* hopper.h: planning and launching fwd_sm90: one block per SM, which takes tile after tile, and whose producer has
 * the copy engine bring Q, K and V by tensor maps that are encoded once per plan. */
#ifndef ATT_CUDA_HOPPER_H
#define ATT_CUDA_HOPPER_H

#include "attention/cuda/tiling.h"

/* What keeps the kernel from the problem, beyond dtype, head dimensions and rows aligned to 16 bytes, or NULL; *field is then
 * the field at fault. */
const char *att_cuda_hopper_refusal(const att_cuda_kernel *kernel, const att_problem *p,
                                    const char **field);

/* log2 of the query heads that share a tile: all of a group, where one head's rows would not fill it. */
int att_cuda_hopper_pack(const att_cuda_kernel *kernel, const att_problem *p);

/* Tiles of rows that the problem is cut into; INT64_MAX where they are too many to count. */
int64_t att_cuda_hopper_tiles(const att_cuda_kernel *kernel, const att_problem *p);

/* Blocks that compute so many tiles: as many as there are SMs, each of which takes tile after tile, or, of
 * the small rows, a block per tile. */
int64_t att_cuda_hopper_blocks(const att_cuda_kernel *kernel, int64_t tiles, int sms);

/* att_family.cut and .run. A grid of 0 blocks is nothing to launch. */
att_status att_cuda_hopper_cut(void *state, size_t *workspace, const att_context *ctx,
                               const att_kernel_row *row, const void *problem);
att_status att_cuda_hopper_run(const att_plan *plan, const void *args, void *workspace,
                               void *stream);

#endif
