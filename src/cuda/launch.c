/* launch.c: launches a kernel on a stream, and records the launch. */
#include "cuda/launch.h"

#include <string.h>

#include "base/error.h"
#include "cuda/function.h"

enum { CC_OVERLAP = 90 }; /* compute capability from which kernels may overlap on a stream */

/* Plans of different sizes share a function: an allowance is only ever raised. */
att_status att_cuda_function_allow(const att_cuda_function *function, uint32_t shared) {
    att_cuda_function *f =
        (att_cuda_function *)function; /* lock and limit are internal to it */
    const att_cuda_limits *limits = att_cuda_device_limits(f->device);
    ATT_REQUIRE((int64_t)shared + f->code.shared_bytes <= limits->shared_per_block,
                ATT_E_UNSUPPORTED, "device",
                "%s needs %lld bytes of shared memory per block, the GPU has %d", f->name,
                (long long)shared + f->code.shared_bytes, limits->shared_per_block);
    pthread_mutex_lock(&f->lock);
    att_status status = ATT_OK;
    if (shared > f->shared_allowed)
        status = ATT_CUDA(f->cu, f->name, KernelSetAttribute,
                          CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared,
                          f->kernel, att_cuda_device_handle(f->device));
    if (status == ATT_OK && shared > f->shared_allowed)
        f->shared_allowed = shared;
    pthread_mutex_unlock(&f->lock);
    return status;
}

att_status att_cuda_function_allow_clusters(const att_cuda_function *function) {
    return ATT_CUDA(function->cu, function->name, KernelSetAttribute,
                    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, function->kernel,
                    att_cuda_device_handle(function->device));
}

enum { ATTRIBUTES_MOST = 2 };

/* The launch attributes are stored in `attributes`. */
static CUlaunchConfig config_of(const att_cuda_function *function, const att_cuda_shape *shape,
                                CUlaunchAttribute attributes[ATTRIBUTES_MOST]) {
    unsigned int count = 0;
    if (shape->overlap && att_cuda_device_limits(function->device)->cc >= CC_OVERLAP)
        attributes[count++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                .value.programmaticStreamSerializationAllowed = 1};
    if (shape->cluster)
        attributes[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                                  .value.clusterDim = {1, shape->cluster, 1}};
    return (CUlaunchConfig){.gridDimX = shape->grid[0],
                            .gridDimY = shape->grid[1],
                            .gridDimZ = shape->grid[2],
                            .blockDimX = shape->threads,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .sharedMemBytes = shape->shared,
                            .attrs = count ? attributes : NULL,
                            .numAttrs = count};
}

att_status att_cuda_clusters_resident(int *clusters, const att_cuda_function *function,
                                      const att_cuda_shape *shape) {
    CUlaunchAttribute attributes[ATTRIBUTES_MOST];
    const CUlaunchConfig config = config_of(function, shape, attributes);
    ATT_TRY(att_cuda_device_enter(function->device));
    const att_status status = ATT_CUDA(function->cu, function->name, OccupancyMaxActiveClusters,
                                       clusters, (CUfunction)function->kernel, &config);
    att_cuda_device_leave(function->device);
    return status;
}

att_status att_cuda_launch(const att_cuda_function *function, const att_cuda_shape *shape,
                           const void *params, size_t bytes, void *stream) {
    CUlaunchAttribute attributes[ATTRIBUTES_MOST];
    CUlaunchConfig config = config_of(function, shape, attributes);
    config.hStream = stream;
    ATT_REQUIRE(!function->params_bytes || bytes == function->params_bytes, ATT_E_ARG, "params",
                "%s takes %zu bytes of parameters, not %zu", function->name,
                function->params_bytes, bytes);
    void *list[] = {(void *)params}; /* the driver copies them before it returns */
    bool entered;
    ATT_TRY(att_cuda_device_enter_once(function->device, &entered));
    /* A library kernel can be used as a function: it runs in the current context. */
    const att_status status = ATT_CUDA(function->cu, function->name, LaunchKernelEx, &config,
                                       (CUfunction)function->kernel, list, NULL);
    if (entered)
        att_cuda_device_leave(function->device);
    return status;
}

void att_cuda_launch_record(att_launch *out, const att_cuda_function *function,
                            const att_cuda_shape *shape) {
    *out = (att_launch){.kernel = function->name,
                        .grid = {shape->grid[0], shape->grid[1], shape->grid[2]},
                        .block = {shape->threads, 1, 1},
                        .shared_bytes = shape->shared,
                        .registers = (uint32_t)function->code.registers};
    memcpy(out->code_sha256, function->code.sha256, sizeof out->code_sha256);
}
