/* launch.h: launches a kernel on a stream, and records the launch. */
#ifndef ATT_CUDA_LAUNCH_H
#define ATT_CUDA_LAUNCH_H

#include <stdbool.h>

#include "cuda/module.h"

typedef struct att_cuda_shape {
    uint32_t grid[3];
    uint32_t threads; /* per block */
    uint32_t shared;  /* dynamic bytes per block */
    uint32_t cluster; /* blocks per cluster, along grid[1]; 0: no clusters (sm_90 and newer) */
    bool overlap; /* may start while the previous kernel on the stream ends (sm_90 and newer);
                   * must then wait with griddepcontrol before it reads that kernel's output */
} att_cuda_shape;

/* Allow `shared` dynamic bytes for this function; at plan time, not in a run. */
att_status att_cuda_function_allow(const att_cuda_function *function, uint32_t shared);

/* Allow clusters larger than the eight blocks that every GPU with clusters supports; at plan
 * time. */
att_status att_cuda_function_allow_clusters(const att_cuda_function *function);

/* Clusters of this shape that the GPU holds at once; 0 if it cannot hold one. The grid does not
 * matter. Errors: ATT_E_CUDA. */
att_status att_cuda_clusters_resident(int *clusters, const att_cuda_function *function,
                                      const att_cuda_shape *shape);

/* Launch with one by-value parameter of `bytes` bytes. Never allocates, never waits; allowed
 * while the stream is captured into a graph. `stream` may be NULL (the legacy default stream),
 * or the special handles of the driver and the runtime for it and for the per-thread one. If
 * the calling thread has no current context, the device's primary one is used for the call.
 * Errors: ATT_E_ARG (the kernel's parameter has another size), ATT_E_CUDA naming the call, the
 * code and the kernel; the text says so if the device was lost to an earlier fault. */
att_status att_cuda_launch(const att_cuda_function *function, const att_cuda_shape *shape,
                           const void *params, size_t bytes, void *stream);

/* Describe a launch of this function with this shape, from the loaded code itself: its name in
 * the machine code, registers, digest. */
void att_cuda_launch_record(att_launch *out, const att_cuda_function *function,
                            const att_cuda_shape *shape);

#endif
