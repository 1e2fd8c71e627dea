/* launch.h: put a kernel on a stream, and say what was put there. */
#ifndef ATT_CUDA_LAUNCH_H
#define ATT_CUDA_LAUNCH_H

#include <stdbool.h>

#include "cuda/module.h"

typedef struct att_cuda_shape {
    uint32_t grid[3];
    uint32_t threads; /* a block */
    uint32_t shared;  /* dynamic bytes per block */
    uint32_t cluster; /* blocks of a cluster, along grid[1]; 0: no clusters (sm_90 and newer) */
    bool overlap; /* may begin while the kernel before it on the stream ends (sm_90 and newer);
                         it must then wait by griddepcontrol before it reads what that one wrote */
} att_cuda_shape;

/* Allow `shared` dynamic bytes on this function; at plan time, not in a run. */
att_status att_cuda_function_allow(const att_cuda_function *function, uint32_t shared);

/* Allow clusters of more than the eight blocks that every GPU with clusters takes; at plan time. */
att_status att_cuda_function_allow_clusters(const att_cuda_function *function);

/* Clusters of this shape that the GPU holds at once; 0 where it holds none. The grid does not matter.
 * Errors: ATT_E_CUDA. */
att_status att_cuda_clusters_resident(int *clusters, const att_cuda_function *function,
                                      const att_cuda_shape *shape);

/* Launch with one by-value parameter of `bytes` bytes. Never allocates, never waits; fine while the stream
 * is captured into a graph. `stream` may be NULL (the legacy default stream), or the driver's and runtime's
 * special handles for it and for the per-thread one. Where the calling thread has no current context, the
 * device's primary one is used for the call.
 * Errors: ATT_E_ARG (the kernel's parameter has another size), ATT_E_CUDA naming the call, the code and the
 * kernel; a device lost to an earlier fault says so. */
att_status att_cuda_launch(const att_cuda_function *function, const att_cuda_shape *shape,
                           const void *params, size_t bytes, void *stream);

/* What a launch of this function at this shape is, from the loaded code itself: its own name in the machine
 * code, registers, digest. */
void att_cuda_launch_record(att_launch *out, const att_cuda_function *function,
                            const att_cuda_shape *shape);

#endif
