/* tiling.h: cut a problem into blocks for a GPU kernel, and launch them. */
#ifndef ATT_CUDA_TILING_H
#define ATT_CUDA_TILING_H

#include "cuda/family.h"
#include "cuda/launch.h"
#include "kernels/fwd_sm90_params.h"

/* A problem cut for one kernel on one device; frozen in the plan. */
typedef struct att_cuda_tiling {
    const att_cuda_function *function, *combine; /* combine: NULL where splits = 1 */
    att_cuda_shape shape, combine_shape;
    att_fwd_params params;      /* all but the pointers */
    size_t workspace;           /* bytes; partial rows of the splits */
    att_cuda_family family;     /* how it is launched */
    struct att_cublas *cublas;  /* the rung `unfused` alone, else NULL */
    att_fwd_sm90_params hopper; /* fwd_sm90 alone: all but `fwd` and the pointers */
    bool counts_tiles;          /* fwd_sm90: blocks draw their tiles from a counter */
} att_cuda_tiling;

/* Load the code and choose splits and grid. `combine` is the row of the combining kernel; NULL: the keys are not
 * split. Errors: ATT_E_UNSUPPORTED, ATT_E_CUDA, ATT_E_MEMORY. */
att_status att_cuda_tiling_choose(att_cuda_tiling *tiling, att_cuda_device *device,
                                  const att_cuda_kernel *kernel, const att_cuda_kernel *combine,
                                  const att_cuda_source *source, const att_problem *p);

/* Launch. The arguments have been checked. `launch`, where not NULL, gets the main kernel's record. */
att_status att_cuda_forward(const att_cuda_tiling *tiling, const att_args *args,
                            void *workspace, void *stream);

#endif
