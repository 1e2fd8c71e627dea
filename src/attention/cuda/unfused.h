/* unfused.h: the rung of the ladder that is three steps: cuBLAS, softmax, cuBLAS. */
#ifndef ATT_CUDA_UNFUSED_H
#define ATT_CUDA_UNFUSED_H

#include "attention/cuda/tiling.h"

/* What keeps it from a problem, or NULL; *field is then the field at fault. */
const char *att_cuda_unfused_refusal(const att_problem *p, const char **field);

/* Bytes of workspace: the scores and weights of every head, and cuBLAS's own. */
size_t att_cuda_unfused_workspace(const att_problem *p);

/* Put the five launches on the stream. `params` has its pointers. */
att_status att_cuda_unfused_run(const att_cuda_tiling *tiling, const att_fwd_params *params,
                                void *workspace, void *stream);

#endif
