/* fake_module.c: code, kernels and launches of the fake driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake_cuda/fake_driver.h"

CUresult fake_LibraryLoadData(CUlibrary *library, const void *code, int *jit_options,
                              void **jit_values, unsigned int jit_count, int *options,
                              void **values, unsigned int count) {
    (void)jit_options, (void)jit_values, (void)options, (void)values;
    ENTER("cuLibraryLoadData");
    if (!code || jit_count || count)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    backend_code *loaded = backend_load(code);
    pthread_mutex_unlock(&fake_lock);
    if (!loaded)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *library = calloc(1, sizeof **library);
    (*library)->code = loaded;
    fake_add(&fake_state.libraries_loaded, 1);
    fake_add(&fake_state.libraries_live, 1);
    return CUDA_SUCCESS;
}

CUresult fake_LibraryUnload(CUlibrary library) {
    pthread_mutex_lock(&fake_lock);
    fake_run_launches();
    backend_unload(library->code);
    pthread_mutex_unlock(&fake_lock);
    for (CUkernel kernel = library->kernels, next; kernel; kernel = next) {
        next = kernel->next;
        free(kernel);
    }
    free(library);
    fake_add(&fake_state.libraries_live, -1);
    return CUDA_SUCCESS;
}

CUresult fake_LibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    ENTER("cuLibraryGetKernel");
    *kernel = calloc(1, sizeof **kernel);
    snprintf((*kernel)->name, sizeof(*kernel)->name, "%s", name);
    (*kernel)->library = library;
    (*kernel)->next = library->kernels;
    library->kernels = *kernel;
    return CUDA_SUCCESS;
}

CUresult fake_KernelGetFunction(CUfunction *function, CUkernel kernel) {
    ENTER("cuKernelGetFunction");
    *function = (CUfunction)kernel;
    return fake_has_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_KernelGetName(const char **name, CUkernel kernel) {
    ENTER("cuKernelGetName");
    *name = kernel->name;
    return CUDA_SUCCESS;
}

CUresult fake_FuncLoad(CUfunction function) {
    ENTER("cuFuncLoad");
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult attribute_of(int *value, int attribute, CUkernel kernel) {
    const backend_limits limits = backend_limits_of(kernel->library->code, kernel->name);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = limits.threads;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = limits.shared_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = fake_state.local_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = limits.registers;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = fake_state.cc[0];
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = 48128;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult fake_KernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device) {
    ENTER("cuKernelGetAttribute");
    if (!kernel || !fake_is_device(device))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute_of(value, attribute, kernel);
}

CUresult fake_KernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device) {
    ENTER("cuKernelSetAttribute");
    if (!kernel || !fake_is_device(device))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
        kernel->large_clusters = value;
    else if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        fake_state.shared_allowed = value;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult fake_FuncGetAttribute(int *value, int attribute, CUfunction function) {
    ENTER("cuFuncGetAttribute");
    return function ? attribute_of(value, attribute, (CUkernel)function)
                    : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_OccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                        int threads, size_t shared) {
    (void)function;
    ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    *blocks = threads > 0 && shared <= 232448 ? 2 : 0;
    return CUDA_SUCCESS;
}

/* Blocks per cluster that the launch asks for; 1: none; 0: not available. */
static int cluster_of(CUkernel kernel, const CUlaunchConfig *config) {
    enum { PORTABLE = 8, MOST = 16 };
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            continue;
        const unsigned int size = config->attrs[i].value.clusterDim.y;
        const bool whole = size > 0 && config->gridDimY % size == 0 &&
                           config->attrs[i].value.clusterDim.x == 1 &&
                           config->attrs[i].value.clusterDim.z == 1;
        return whole && size <= (kernel->large_clusters ? MOST : PORTABLE) ? (int)size : 0;
    }
    return 1;
}

CUresult fake_OccupancyMaxActiveClusters(int *clusters, CUfunction function,
                                         const CUlaunchConfig *config) {
    ENTER("cuOccupancyMaxActiveClusters");
    const int size = cluster_of((CUkernel)function, config);
    if (!fake_has_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *clusters = backend_clusters(size);
    return CUDA_SUCCESS;
}

CUresult fake_KernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes) {
    ENTER("cuKernelGetParamInfo");
    *offset = 0;
    *bytes = backend_params_bytes(kernel->library->code, kernel->name);
    return index == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_LaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **list,
                             void **extra) {
    ENTER("cuLaunchKernelEx");
    if (!fake_has_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!list || extra || !config->gridDimX || config->gridDimY > 65535 ||
        config->gridDimZ > 65535 || config->blockDimX > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    const CUkernel kernel = (CUkernel)function;
    fake_node node = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                      .kernel = kernel,
                      .config = *config,
                      .cluster = cluster_of(kernel, config),
                      .bytes = backend_params_bytes(kernel->library->code, kernel->name)};
    if (node.cluster == 0 || config->numAttrs > FAKE_ATTRIBUTES_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(node.params, list[0], node.bytes);
    for (unsigned int i = 0; i < config->numAttrs; i++)
        node.attributes[i] = config->attrs[i];
    pthread_mutex_lock(&fake_lock);
    fake_state.launches++;
    fake_state.config = *config;
    fake_state.cluster = node.cluster;
    fake_state.attribute = config->numAttrs > 0 ? config->attrs[0].id : -1;
    snprintf(fake_state.kernel, sizeof fake_state.kernel, "%s", kernel->name);
    memcpy(fake_state.params, node.params, node.bytes);
    fake_state.params_bytes = node.bytes;
    pthread_mutex_unlock(&fake_lock);
    return fake_stream_take(&node, config->hStream);
}
