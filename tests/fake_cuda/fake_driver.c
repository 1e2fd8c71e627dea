/* fake_driver.c: a CUDA driver without a GPU: device memory is the host's, launches are recorded, and any call
 * can be made to fail. */
#include "tests/fake_cuda/fake_cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/fwd_sm90_params.h"
#include "kernels/unfused_params.h"
#include "peers/cublas/cublas_steps.h"
#include "tests/fake_cuda/fake_hopper.h"
#include "tests/fake_cuda/fake_kernel.h"
#include "tests/fake_cuda/fake_merge.h"
#include "tests/fake_cuda/fake_tensor_map.h"

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_cuda state = {.version = 13000,
                          .devices = FAKE_DEVICES,
                          .cc = {90, 89, 120, 75},
                          .memory_type = CU_MEMORYTYPE_DEVICE,
                          .attribute = -1};

EXPORT fake_cuda *fake_cuda_state(void);
EXPORT long fake_cuda_launches(void);
EXPORT void *fake_cuda_stream(void);
EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version,
                                    unsigned long long flags, int *found);

fake_cuda *fake_cuda_state(void) {
    return &state;
}

/* For those who do not read C's structs: launches so far, and the stream of the latest. */
long fake_cuda_launches(void) {
    return fake_cuda_state()->launches;
}

void *fake_cuda_stream(void) {
    return fake_cuda_state()->config.hStream;
}

struct CUctx_st {
    CUdevice device;
};
struct CUkern_st {
    char name[128];
    int tile_m, tile_n; /* of fwd_sm90; 0: another source */
    int large_clusters; /* more than 8 blocks are allowed */
    CUlibrary library;
    struct CUkern_st *next;
};
struct CUlib_st {
    struct CUkern_st *kernels;
    int tile[2];        /* rows and keys, where it is compiled from fwd_sm90 */
    double duration_us; /* of a launch of this code */
    bool wrong;
};
struct CUevent_st {
    double at_us; /* by the clock below */
};

/* What a graph replays: a kernel, a copy or a fill. */
typedef struct recorded {
    int type; /* CU_GRAPH_NODE_TYPE_* */
    CUdeviceptr to, from;
    size_t pitch, width, height; /* of a fill; of a copy, height is its bytes */
    unsigned char value;
    CUkernel kernel;
    CUlaunchConfig config;
    _Alignas(64) unsigned char params[FAKE_PARAMS_MAX];
    size_t bytes;
    struct recorded *next;
} recorded;
struct CUgraph_st {
    recorded *first, **last;
};
static CUgraph capturing; /* under `lock`; one at a time */
static bool launched;     /* since the device was last waited for */
static CUstream capturing_stream;
static double clock_us; /* of a GPU that computes (fake_kernel.h) */

static struct CUctx_st primaries[FAKE_DEVICES];
enum { STACK_MAX = 16 };
static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;

/* Count the call and say what it is to give. */
static CUresult enter(const char *call) {
    pthread_mutex_lock(&lock);
    state.calls++;
    CUresult code = state.sticky;
    if (state.calls == state.fail_at || (state.fail_call && !strcmp(state.fail_call, call))) {
        snprintf(state.failed_call, sizeof state.failed_call, "%s", call);
        code = state.fail_code;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

#define ENTER(call)                                                                            \
    do {                                                                                       \
        const CUresult planned = enter(call);                                                  \
        if (planned != CUDA_SUCCESS)                                                           \
            return planned;                                                                    \
    } while (0)

static void add(long *counter, long n) {
    pthread_mutex_lock(&lock);
    *counter += n;
    pthread_mutex_unlock(&lock);
}

static CUresult fake_Init(unsigned int flags) {
    ENTER("cuInit");
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult fake_DriverGetVersion(int *version) {
    ENTER("cuDriverGetVersion");
    *version = state.version;
    return CUDA_SUCCESS;
}

static CUresult fake_GetErrorName(CUresult code, const char **name) {
    static const struct {
        CUresult code;
        const char *name;
    } names[] = {{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                 {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
                 {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                 {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                 {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"}};
    *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code)
            *name = names[i].name;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_GetErrorString(CUresult code, const char **text) {
    const char *name;
    const CUresult known = fake_GetErrorName(code, &name);
    *text = known == CUDA_SUCCESS ? "as the test wished" : NULL;
    return known;
}

static bool is_device(CUdevice device) {
    return device >= 0 && device < state.devices;
}

static CUresult fake_DeviceGetCount(int *count) {
    ENTER("cuDeviceGetCount");
    *count = state.devices;
    return CUDA_SUCCESS;
}

static CUresult fake_DeviceGet(CUdevice *device, int ordinal) {
    ENTER("cuDeviceGet");
    *device = ordinal;
    return is_device(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_DeviceGetName(char *name, int bytes, CUdevice device) {
    ENTER("cuDeviceGetName");
    snprintf(name, (size_t)bytes, "Fake GPU %d", device);
    return CUDA_SUCCESS;
}

static CUresult fake_DeviceGetUuid(CUuuid *uuid, CUdevice device) {
    ENTER("cuDeviceGetUuid");
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = (unsigned char)(16 * device + i);
    return CUDA_SUCCESS;
}

/* The environment's FAKE_CUDA_CC is that of device 0, where a test has not set another. */
static int cc_of(CUdevice device) {
    const char *text = getenv("FAKE_CUDA_CC");
    return device == 0 && state.cc[0] == 90 && text ? atoi(text) : state.cc[device];
}

static CUresult fake_DeviceGetAttribute(int *value, int attribute, CUdevice device) {
    ENTER("cuDeviceGetAttribute");
    if (!is_device(device))
        return CUDA_ERROR_INVALID_VALUE;
    const int cc = cc_of(device);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = cc / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = cc % 10;
        break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *value = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 132;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        *value = cc == 89 ? 1536 : 2048;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        *value = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        *value = cc == 89 ? 102400 : cc == 80 ? 167936 : 233472;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = cc == 89 ? 101376 : cc == 80 ? 166912 : 232448;
        break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        *value = 1024;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        *value = 65536;
        break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = 50 << 20;
        break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        *value = 1980000;
        break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *value = 3201000;
        break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *value = 6144;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult fake_DeviceTotalMem(size_t *bytes, CUdevice device) {
    ENTER("cuDeviceTotalMem");
    *bytes = (size_t)(device + 1) << 32;
    return CUDA_SUCCESS;
}

static CUresult fake_DevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    ENTER("cuDevicePrimaryCtxRetain");
    primaries[device].device = device;
    *context = &primaries[device];
    add(&state.contexts_retained, 1);
    return CUDA_SUCCESS;
}

static CUresult fake_CtxGetCurrent(CUcontext *context) {
    ENTER("cuCtxGetCurrent");
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

static CUresult fake_CtxGetDevice(CUdevice *device) {
    ENTER("cuCtxGetDevice");
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = stack[depth - 1]->device;
    return CUDA_SUCCESS;
}

static CUresult fake_CtxPushCurrent(CUcontext context) {
    ENTER("cuCtxPushCurrent");
    if (!context || depth == STACK_MAX)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

/* Not counted: a failure of it could only be ignored. */
static CUresult fake_CtxPopCurrent(CUcontext *context) {
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

static void finish_fill(void);

static CUresult fake_CtxSynchronize(void) {
    ENTER("cuCtxSynchronize");
    finish_fill();
    if (state.busy_us > 0 && launched)
        usleep((useconds_t)state.busy_us);
    launched = false;
    return depth > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult fake_LibraryLoadData(CUlibrary *library, const void *code, int *jit_options,
                                     void **jit_values, unsigned int jit_count, int *options,
                                     void **values, unsigned int count) {
    (void)jit_options, (void)jit_values, (void)options, (void)values;
    ENTER("cuLibraryLoadData");
    if (!code || jit_count || count)
        return CUDA_ERROR_INVALID_VALUE;
    *library = calloc(1, sizeof **library);
    fake_hopper_tile(code, (*library)->tile);
    (*library)->duration_us = fake_duration(code);
    (*library)->wrong = fake_is_wrong(code);
    add(&state.libraries_loaded, 1);
    add(&state.libraries_live, 1);
    return CUDA_SUCCESS;
}

static CUresult fake_LibraryUnload(CUlibrary library) {
    for (CUkernel kernel = library->kernels, next; kernel; kernel = next) {
        next = kernel->next;
        free(kernel);
    }
    free(library);
    add(&state.libraries_live, -1);
    return CUDA_SUCCESS;
}

static CUresult fake_LibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    ENTER("cuLibraryGetKernel");
    *kernel = calloc(1, sizeof **kernel);
    snprintf((*kernel)->name, sizeof(*kernel)->name, "%s", name);
    (*kernel)->library = library;
    (*kernel)->tile_m = library->tile[0];
    (*kernel)->tile_n = library->tile[1];
    const char *tile = strstr(name, "fwd_sm90") ? strstr(name, "_m") : NULL;
    if (tile) /* machine code says no more than its name */
        sscanf(tile, "_m%dn%d", &(*kernel)->tile_m, &(*kernel)->tile_n);
    (*kernel)->next = library->kernels;
    library->kernels = *kernel;
    return CUDA_SUCCESS;
}

static CUresult fake_KernelGetFunction(CUfunction *function, CUkernel kernel) {
    ENTER("cuKernelGetFunction");
    *function = (CUfunction)kernel;
    return depth > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult fake_KernelGetName(const char **name, CUkernel kernel) {
    ENTER("cuKernelGetName");
    *name = kernel->name;
    return CUDA_SUCCESS;
}

static CUresult fake_FuncLoad(CUfunction function) {
    ENTER("cuFuncLoad");
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult attribute_of(int *value, int attribute) {
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = state.max_threads ? state.max_threads : 256;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = 1024;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = state.local_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 168;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = state.cc[0];
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = 48128;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult fake_KernelGetAttribute(int *value, int attribute, CUkernel kernel,
                                        CUdevice device) {
    ENTER("cuKernelGetAttribute");
    if (!kernel || !is_device(device))
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = attribute_of(value, attribute);
    /* Registers of fwd_sm90 are for as many threads as it is compiled for. */
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK && !state.max_threads &&
        kernel->tile_m > 0)
        *value = 640;
    return code;
}

static CUresult fake_KernelSetAttribute(int attribute, int value, CUkernel kernel,
                                        CUdevice device) {
    ENTER("cuKernelSetAttribute");
    if (!kernel || !is_device(device))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
        kernel->large_clusters = value;
    else if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        state.shared_allowed = value;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult fake_FuncGetAttribute(int *value, int attribute, CUfunction function) {
    ENTER("cuFuncGetAttribute");
    return function ? attribute_of(value, attribute) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_OccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                               int threads, size_t shared) {
    (void)function;
    ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    *blocks = threads > 0 && shared <= 232448 ? 2 : 0;
    return CUDA_SUCCESS;
}

/* Blocks of a cluster that the launch asks for; 1: none; 0: what it asks for is not to be had. */
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

static CUresult fake_OccupancyMaxActiveClusters(int *clusters, CUfunction function,
                                                const CUlaunchConfig *config) {
    enum { SMS = 132, IN_GROUPS = 120, MOST = 16 }; /* of an H200, one block an SM */
    ENTER("cuOccupancyMaxActiveClusters");
    const int size = cluster_of((CUkernel)function, config);
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const int most = state.cluster_most ? state.cluster_most : MOST;
    const int slots = state.cluster_slots ? state.cluster_slots : size <= 2 ? SMS : IN_GROUPS;
    *clusters = size > most ? 0 : slots / size;
    return CUDA_SUCCESS;
}

/* Bytes of the one parameter. */
static size_t params_of(CUkernel kernel) {
    if (state.kernel_params > 0)
        return state.kernel_params;
    if (strncmp(kernel->name, "peer_cublas", 11) == 0)
        return sizeof(peer_cublas_params);
    if (kernel->tile_m > 0)
        return sizeof(att_fwd_sm90_params);
    if (fake_is_merge(kernel->name))
        return sizeof(att_merge_params);
    return strstr(kernel->name, "unfused") ? sizeof(att_unfused_params)
                                           : sizeof(att_fwd_params);
}

static CUresult fake_KernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset,
                                        size_t *bytes) {
    ENTER("cuKernelGetParamInfo");
    *offset = 0;
    *bytes = params_of(kernel);
    return index == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A deterministic two per cent of noise around `us`. */
static double noisy(double us) {
    static uint64_t seed = 1;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return us * (0.99 + 0.02 * (double)(seed >> 40) / (double)(1 << 24));
}

/* Under `lock`: what a launch does. */
static void execute(CUkernel kernel, const CUlaunchConfig *config, const void *params,
                    size_t bytes) {
    launched = true;
    if (state.run) {
        state.run(kernel->name, config, params, bytes);
    } else if (fake_computes() && fake_is_merge(kernel->name)) {
        clock_us += noisy(kernel->library->duration_us);
        if (!fake_merge(kernel->name, params, config->gridDimX, config->blockDimX,
                        kernel->library->wrong))
            state.sticky = CUDA_ERROR_LAUNCH_FAILED;
    } else if (fake_computes() && bytes == sizeof(att_fwd_params)) {
        clock_us += noisy(kernel->library->duration_us);
        if (strncmp(kernel->name, "combine", 7) !=
            0) /* the first launch gives the whole answer */
            fake_attention(params, kernel->library->wrong);
    } else if (fake_computes() && kernel->tile_m > 0) {
        clock_us += noisy(kernel->library->duration_us);
        if (!fake_hopper_attention(params, kernel->tile_m, kernel->tile_n,
                                   kernel->library->wrong))
            state.sticky = CUDA_ERROR_LAUNCH_FAILED;
    }
}

static void append(const recorded *node) {
    recorded *r = aligned_alloc(_Alignof(recorded), sizeof *r);
    *r = *node;
    *capturing->last = r;
    capturing->last = &r->next;
}

static void record(CUkernel kernel, const CUlaunchConfig *config, const void *params,
                   size_t bytes) {
    recorded r = {
        .type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = kernel, .config = *config, .bytes = bytes};
    memcpy(r.params, params, bytes);
    append(&r);
}

/* A copy or a fill: done now, and again by the graph that is being captured. */
static void move_bytes(const recorded *node) {
    char *to = (char *)(uintptr_t)node->to;
    if (node->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        memmove(to, (const void *)(uintptr_t)node->from, node->height);
    else
        for (size_t i = 0; i < node->height; i++)
            memset(to + i * node->pitch, node->value, node->width);
    clock_us += 2.0 + (double)(node->width ? node->width * node->height : node->height) / 1e5;
}

static CUresult move_on_stream(const recorded *node, CUstream stream) {
    pthread_mutex_lock(&lock);
    move_bytes(node);
    if (capturing && stream == capturing_stream)
        append(node);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult fake_LaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                    void **list, void **extra) {
    ENTER("cuLaunchKernelEx");
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!list || extra || !config->gridDimX || config->gridDimY > 65535 ||
        config->gridDimZ > 65535 || config->blockDimX > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    const CUkernel kernel = (CUkernel)function;
    const void *params = list[0];
    const size_t bytes = params_of(kernel);
    const int cluster = cluster_of(kernel, config);
    if (cluster == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    state.launches++;
    state.config = *config;
    state.cluster = cluster;
    state.attribute = config->numAttrs > 0 ? config->attrs[0].id : -1;
    snprintf(state.kernel, sizeof state.kernel, "%s", kernel->name);
    memcpy(state.params, params, bytes);
    state.params_bytes = bytes;
    execute(kernel, config, params, bytes);
    if (capturing && config->hStream == capturing_stream)
        record(kernel, config, params, bytes);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* Device memory is host memory, with its size before it. */
enum { HEADER = 256 };

static void *address_of(CUdeviceptr memory) {
    return (void *)(uintptr_t)memory;
}

static CUresult fake_TensorMapEncodeTiled(CUtensorMap *map, int type, unsigned int rank,
                                          void *address, const uint64_t *sizes,
                                          const uint64_t *strides, const uint32_t *box,
                                          const uint32_t *steps, int interleave, int swizzle,
                                          int promotion, int fill) {
    ENTER("cuTensorMapEncodeTiled");
    return fake_map_encode(map, type, rank, address, sizes, strides, box, steps, interleave,
                           swizzle, promotion, fill);
}

static CUresult fake_TensorMapReplaceAddress(CUtensorMap *map, void *address) {
    ENTER("cuTensorMapReplaceAddress");
    return fake_map_replace(map, address);
}

static CUresult fake_MemGetInfo(size_t *free_bytes, size_t *total) {
    ENTER("cuMemGetInfo");
    *free_bytes = (size_t)1 << 30;
    *total = (size_t)1 << 32;
    return CUDA_SUCCESS;
}

static CUresult fake_MemAlloc(CUdeviceptr *memory, size_t bytes) {
    ENTER("cuMemAlloc");
    char *block = bytes > 0
                      ? aligned_alloc(HEADER, (HEADER + bytes + HEADER - 1) / HEADER * HEADER)
                      : NULL;
    if (!block)
        return bytes > 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    *memory = (CUdeviceptr)(uintptr_t)(block + HEADER);
    add(&state.memory_live, 1);
    return CUDA_SUCCESS;
}

/* A fill on the default stream: as on a GPU, the call returns before it is done. Here it is done as late as may be: when the
 * host waits for a stream, after what other streams were given meanwhile. */
static struct {
    CUdeviceptr memory;
    unsigned char value;
    size_t count; /* 0: none */
} late_fill;

static void finish_fill(void) {
    pthread_mutex_lock(&lock);
    if (late_fill.count > 0)
        memset(address_of(late_fill.memory), late_fill.value, late_fill.count);
    late_fill.count = 0;
    pthread_mutex_unlock(&lock);
}

static CUresult fake_MemFree(CUdeviceptr memory) {
    if (!memory)
        return CUDA_SUCCESS;
    finish_fill();
    free((char *)address_of(memory) - HEADER);
    add(&state.memory_live, -1);
    return CUDA_SUCCESS;
}

static CUresult fake_MemAllocHost(void **memory, size_t bytes) {
    ENTER("cuMemAllocHost");
    *memory = malloc(bytes ? bytes : 1);
    add(&state.memory_live, *memory != NULL);
    return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult fake_MemFreeHost(void *memory) {
    add(&state.memory_live, memory ? -1 : 0);
    free(memory);
    return CUDA_SUCCESS;
}

/* A GPU copies what the host's sanitizer has marked too, guard bands among it: byte by byte, where none looks. */
__attribute__((no_sanitize("address"))) static void copy_unseen(void *to, const void *from,
                                                                size_t bytes) {
    volatile unsigned char *out = to;
    const unsigned char *in = from;
    for (size_t i = 0; i < bytes; i++)
        out[i] = in[i];
}

static CUresult fake_MemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
    ENTER("cuMemcpyHtoD");
    finish_fill();
    copy_unseen(address_of(to), from, bytes);
    return CUDA_SUCCESS;
}

static CUresult fake_MemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
    ENTER("cuMemcpyDtoH");
    finish_fill();
    copy_unseen(to, address_of(from), bytes);
    return CUDA_SUCCESS;
}

static CUresult fake_MemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    ENTER("cuMemcpyDtoD");
    memmove(address_of(to), address_of(from), bytes);
    return CUDA_SUCCESS;
}

static CUresult fake_MemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                                     CUstream stream) {
    (void)stream;
    ENTER("cuMemcpyHtoD");
    copy_unseen(address_of(to), from, bytes);
    return CUDA_SUCCESS;
}

static CUresult fake_MemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                                     CUstream stream) {
    (void)stream;
    ENTER("cuMemcpyDtoH");
    copy_unseen(to, address_of(from), bytes);
    return CUDA_SUCCESS;
}

static CUresult fake_MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                     CUstream stream) {
    ENTER("cuMemcpyDtoD");
    return move_on_stream(
        &(recorded){.type = CU_GRAPH_NODE_TYPE_MEMCPY, .to = to, .from = from, .height = bytes},
        stream);
}

static CUresult fake_MemsetD8(CUdeviceptr memory, unsigned char value, size_t count) {
    ENTER("cuMemsetD8");
    finish_fill();
    pthread_mutex_lock(&lock);
    late_fill.memory = memory;
    late_fill.value = value;
    late_fill.count = count;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult fake_MemsetD8Async(CUdeviceptr memory, unsigned char value, size_t count,
                                   CUstream stream) {
    ENTER("cuMemsetD8");
    return move_on_stream(&(recorded){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                      .to = memory,
                                      .value = value,
                                      .width = count,
                                      .height = 1},
                          stream);
}

static CUresult fake_MemsetD2D8Async(CUdeviceptr memory, size_t pitch, unsigned char value,
                                     size_t width, size_t height, CUstream stream) {
    ENTER("cuMemsetD2D8Async");
    return move_on_stream(&(recorded){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                      .to = memory,
                                      .pitch = pitch,
                                      .value = value,
                                      .width = width,
                                      .height = height},
                          stream);
}

/* Every address is what the test says: at first memory of device 0. */
static CUresult fake_PointerGetAttribute(void *value, int attribute, CUdeviceptr memory) {
    ENTER("cuPointerGetAttribute");
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)value = (unsigned int)state.memory_type;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = memory;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)value = (unsigned int)state.memory_managed;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = state.memory_device;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult fake_PointerGetAttributes(unsigned int count, int *attributes, void **values,
                                          CUdeviceptr memory) {
    for (unsigned int i = 0; i < count; i++) {
        const CUresult code = fake_PointerGetAttribute(values[i], attributes[i], memory);
        if (code != CUDA_SUCCESS)
            return code;
    }
    return CUDA_SUCCESS;
}

/* Streams, events and graphs are blocks of memory that only have to be given back. */
static CUresult make_handle(void *out, long *live) {
    *(void **)out = malloc(16);
    add(live, 1);
    return CUDA_SUCCESS;
}

static CUresult drop_handle(void *handle, long *live) {
    free(handle);
    add(live, -1);
    return CUDA_SUCCESS;
}

static CUresult fake_StreamCreate(CUstream *stream, unsigned int flags) {
    ENTER("cuStreamCreate");
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : make_handle(stream, &state.streams_live);
}

static CUresult fake_StreamDestroy(CUstream stream) {
    return drop_handle(stream, &state.streams_live);
}

static CUresult fake_StreamSynchronize(CUstream stream) {
    (void)stream;
    ENTER("cuStreamSynchronize");
    finish_fill();
    return CUDA_SUCCESS;
}

static CUresult fake_StreamQuery(CUstream stream) {
    (void)stream;
    ENTER("cuStreamQuery");
    return CUDA_SUCCESS;
}

static CUresult fake_StreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
    (void)stream, (void)event, (void)flags;
    ENTER("cuStreamWaitEvent");
    return CUDA_SUCCESS;
}

static void free_graph(CUgraph graph) {
    for (recorded *r = graph ? graph->first : NULL, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(graph);
}

static CUresult fake_StreamBeginCapture(CUstream stream, int mode) {
    (void)mode;
    ENTER("cuStreamBeginCapture");
    CUgraph graph = calloc(1, sizeof *graph);
    graph->last = &graph->first;
    pthread_mutex_lock(&lock);
    capturing = graph;
    capturing_stream = stream;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult fake_StreamEndCapture(CUstream stream, CUgraph *graph) {
    (void)stream;
    pthread_mutex_lock(&lock);
    *graph = capturing;
    capturing = NULL;
    pthread_mutex_unlock(&lock);
    const CUresult planned = enter("cuStreamEndCapture");
    if (planned != CUDA_SUCCESS) {
        free_graph(*graph);
        *graph = NULL;
        return planned;
    }
    add(&state.graphs_live, 1);
    return CUDA_SUCCESS;
}

static CUresult fake_StreamIsCapturing(CUstream stream, int *status) {
    (void)stream;
    ENTER("cuStreamIsCapturing");
    *status = 0;
    return CUDA_SUCCESS;
}

static CUresult fake_EventCreate(CUevent *event, unsigned int flags) {
    (void)flags;
    ENTER("cuEventCreate");
    return make_handle(event, &state.events_live);
}

static CUresult fake_EventDestroy(CUevent event) {
    return drop_handle(event, &state.events_live);
}

static CUresult fake_EventRecord(CUevent event, CUstream stream) {
    (void)stream;
    ENTER("cuEventRecord");
    event->at_us = clock_us;
    return CUDA_SUCCESS;
}

static CUresult fake_EventSynchronize(CUevent event) {
    (void)event;
    ENTER("cuEventSynchronize");
    return CUDA_SUCCESS;
}

static CUresult fake_EventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    ENTER("cuEventElapsedTime");
    *milliseconds = fake_computes() ? (float)((end->at_us - start->at_us) / 1e3) : 1.0f;
    return CUDA_SUCCESS;
}

/* The executable graph is the graph, which outlives it. */
static CUresult fake_GraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                               unsigned long long flags) {
    (void)flags;
    ENTER("cuGraphInstantiateWithFlags");
    *exec = (CUgraphExec)graph;
    add(&state.graphs_live, 1);
    return CUDA_SUCCESS;
}

static CUresult fake_GraphUpload(CUgraphExec exec, CUstream stream) {
    (void)exec, (void)stream;
    ENTER("cuGraphUpload");
    return CUDA_SUCCESS;
}

/* Launches are made as they are captured; replaying a graph makes them again. */
static CUresult fake_GraphLaunch(CUgraphExec exec, CUstream stream) {
    (void)stream;
    ENTER("cuGraphLaunch");
    pthread_mutex_lock(&lock);
    for (const recorded *r = ((CUgraph)exec)->first; r; r = r->next)
        if (r->type == CU_GRAPH_NODE_TYPE_KERNEL)
            execute(r->kernel, &r->config, r->params, r->bytes);
        else
            move_bytes(r);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult fake_GraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    ENTER("cuGraphGetNodes");
    size_t n = 0;
    for (recorded *r = graph->first; r; r = r->next, n++)
        if (nodes)
            nodes[n] = (CUgraphNode)r;
    *count = n;
    return CUDA_SUCCESS;
}

static CUresult fake_GraphNodeGetType(CUgraphNode node, int *type) {
    ENTER("cuGraphNodeGetType");
    *type = ((const recorded *)node)->type;
    return CUDA_SUCCESS;
}

static CUresult fake_GraphExecDestroy(CUgraphExec exec) {
    add(&state.graphs_live, exec ? -1 : 0);
    return CUDA_SUCCESS;
}

static CUresult fake_GraphDestroy(CUgraph graph) {
    free_graph(graph);
    add(&state.graphs_live, graph ? -1 : 0);
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version,
                             unsigned long long flags, int *found) {
    (void)flags, (void)found;
    *address = NULL;
    if (state.missing && strcmp(symbol, state.missing) == 0)
        return CUDA_ERROR_INVALID_VALUE;
#define X(name, since, parameters)                                                             \
    if (strcmp(symbol, "cu" #name) == 0 && version == since && state.version >= since) {       \
        CUresult(*function) parameters = fake_##name;                                          \
        *address = *(void **)(&function);                                                      \
    }
    ATT_CUDA_CALLS(X)
    ATT_CUDA_CALLS_OPTIONAL(X)
#undef X
    return *address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
