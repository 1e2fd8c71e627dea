/* shares.h: decoding for sequences of unequal lengths: the keys of all of them are cut into equal
 * shares, on the device, since lengths are device data. */
#ifndef ATT_CUDA_SHARES_H
#define ATT_CUDA_SHARES_H

#include "attention/cuda/tiling.h"

/* The number of shares: as many as the GPU holds blocks. */
int64_t att_cuda_shares_count(int sms);

/* Does all work on the problem fit the 32 bits in which the kernel counts it? */
bool att_cuda_shares_countable(const att_cuda_kernel *kernel, const att_problem *p);

/* The kernel that joins the parts of `kernel`, or NULL; one without evidence only if that is
 * allowed. */
const att_cuda_kernel *att_cuda_join_of(const att_cuda_kernel *kernel, bool allow_unattested);

/* att_family.steps_in of fwd_decode_join. */
bool att_cuda_join_steps_in(const att_kernel_row *step, const att_kernel_row *row,
                            const void *problem);

/* att_family.cut, .run and .describe of fwd_decode_shares. */
att_status att_cuda_shares_cut(void *state, size_t *workspace, const att_context *ctx,
                               const att_kernel_row *row, const void *problem);
att_status att_cuda_shares_run(const att_plan *plan, const void *args, void *workspace,
                               void *stream);
void att_cuda_shares_describe(const att_plan *plan, char *text, size_t n);

#endif
