/* unfused.h: the unfused rung of the ladder, in three steps: cuBLAS, softmax, cuBLAS. */
#ifndef ATT_CUDA_UNFUSED_H
#define ATT_CUDA_UNFUSED_H

#include "attention/cuda/tiling.h"

/* Why it cannot serve a problem, or NULL; *field is then the field at fault. */
const char *att_cuda_unfused_refusal(const att_problem *p, const char **field);

/* Bytes of workspace: the scores and weights of every head, and that of cuBLAS. */
size_t att_cuda_unfused_workspace(const att_problem *p);

/* Enqueue the five launches on the stream. The pointers in `params` must be set. */
att_status att_cuda_unfused_run(const att_cuda_tiling *tiling, const att_fwd_params *params,
                                void *workspace, void *stream);

#endif
