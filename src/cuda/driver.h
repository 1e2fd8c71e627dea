/* driver.h: the CUDA driver, loaded at run time.
 *
 * The library is built without CUDA headers and not linked with CUDA libraries: libcuda.so.1 is
 * opened with dlopen, and each entry point is requested by name and version (cuGetProcAddress),
 * so that the signatures below stay valid with newer drivers. The types have the driver's own
 * names. */
#ifndef ATT_CUDA_DRIVER_H
#define ATT_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "attest.h"
#include "kernels/tensor_map.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef att_tensor_map CUtensorMap;

typedef struct CUuuid_st {
    unsigned char bytes[16];
} CUuuid;

/* Codes that the library distinguishes; any other is reported by the driver's name for it. */
enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
    CUDA_ERROR_INVALID_PC = 718,
    CUDA_ERROR_LAUNCH_FAILED = 719
};

enum {
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111
};

enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
};

enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };

enum {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12
};

enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };
enum {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2
};

enum {
    CU_GRAPH_NODE_TYPE_KERNEL = 0,
    CU_GRAPH_NODE_TYPE_MEMCPY = 1,
    CU_GRAPH_NODE_TYPE_MEMSET = 2
};

enum { CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9 };
enum { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum {
    CU_TENSOR_MAP_SWIZZLE_NONE = 0,
    CU_TENSOR_MAP_SWIZZLE_64B = 2,
    CU_TENSOR_MAP_SWIZZLE_128B = 3
};
enum { CU_TENSOR_MAP_L2_PROMOTION_NONE = 0, CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2 };
enum { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 }; /* zeros */

enum {
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};

typedef struct CUlaunchAttribute_st {
    int id;
    char pad[4];
    union {
        char pad[64];
        struct {
            unsigned int x, y, z;
        } clusterDim;
        int programmaticStreamSerializationAllowed;
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

/* Every entry point: X(name without "cu", CUDA version of the signature, parameters). */
#define ATT_CUDA_CALLS(X)                                                                      \
    X(Init, 12000, (unsigned int flags))                                                       \
    X(DriverGetVersion, 12000, (int *version))                                                 \
    X(GetErrorName, 12000, (CUresult code, const char **name))                                 \
    X(GetErrorString, 12000, (CUresult code, const char **text))                               \
    X(DeviceGetCount, 12000, (int *count))                                                     \
    X(DeviceGet, 12000, (CUdevice * device, int ordinal))                                      \
    X(DeviceGetName, 12000, (char *name, int bytes, CUdevice device))                          \
    X(DeviceGetUuid, 12000, (CUuuid * uuid, CUdevice device))                                  \
    X(DeviceGetAttribute, 12000, (int *value, int attribute, CUdevice device))                 \
    X(DeviceTotalMem, 12000, (size_t * bytes, CUdevice device))                                \
    X(DevicePrimaryCtxRetain, 12000, (CUcontext * context, CUdevice device))                   \
    X(CtxGetCurrent, 12000, (CUcontext * context))                                             \
    X(CtxGetDevice, 12000, (CUdevice * device))                                                \
    X(CtxPushCurrent, 12000, (CUcontext context))                                              \
    X(CtxPopCurrent, 12000, (CUcontext * context))                                             \
    X(CtxSynchronize, 12000, (void))                                                           \
    X(LibraryLoadData, 12000,                                                                  \
      (CUlibrary * library, const void *code, int *jit_options, void **jit_values,             \
       unsigned int jit_count, int *options, void **values, unsigned int count))               \
    X(LibraryUnload, 12000, (CUlibrary library))                                               \
    X(LibraryGetKernel, 12000, (CUkernel * kernel, CUlibrary library, const char *name))       \
    X(KernelGetFunction, 12000, (CUfunction * function, CUkernel kernel))                      \
    X(KernelGetAttribute, 12000,                                                               \
      (int *value, int attribute, CUkernel kernel, CUdevice device))                           \
    X(KernelSetAttribute, 12000, (int attribute, int value, CUkernel kernel, CUdevice device)) \
    X(FuncGetAttribute, 12000, (int *value, int attribute, CUfunction function))               \
    X(OccupancyMaxActiveBlocksPerMultiprocessor, 12000,                                        \
      (int *blocks, CUfunction function, int threads, size_t shared))                          \
    X(OccupancyMaxActiveClusters, 12000,                                                       \
      (int *clusters, CUfunction function, const CUlaunchConfig *config))                      \
    X(LaunchKernelEx, 12000,                                                                   \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra))        \
    X(TensorMapEncodeTiled, 12000,                                                             \
      (CUtensorMap * map, int type, unsigned int rank, void *address, const uint64_t *sizes,   \
       const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,    \
       int swizzle, int promotion, int fill))                                                  \
    X(TensorMapReplaceAddress, 12000, (CUtensorMap * map, void *address))                      \
    X(MemGetInfo, 12000, (size_t * free, size_t * total))                                      \
    X(MemAlloc, 12000, (CUdeviceptr * memory, size_t bytes))                                   \
    X(MemFree, 12000, (CUdeviceptr memory))                                                    \
    X(MemAllocHost, 12000, (void **memory, size_t bytes))                                      \
    X(MemFreeHost, 12000, (void *memory))                                                      \
    X(MemHostRegister, 12000, (void *memory, size_t bytes, unsigned int flags))                \
    X(MemHostUnregister, 12000, (void *memory))                                                \
    X(MemcpyHtoD, 12000, (CUdeviceptr to, const void *from, size_t bytes))                     \
    X(MemcpyDtoH, 12000, (void *to, CUdeviceptr from, size_t bytes))                           \
    X(MemcpyDtoD, 12000, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                     \
    X(MemcpyHtoDAsync, 12000,                                                                  \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                       \
    X(MemcpyDtoHAsync, 12000, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))     \
    X(MemcpyDtoDAsync, 12000,                                                                  \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                       \
    X(MemsetD8, 12000, (CUdeviceptr memory, unsigned char value, size_t count))                \
    X(MemsetD8Async, 12000,                                                                    \
      (CUdeviceptr memory, unsigned char value, size_t count, CUstream stream))                \
    X(MemsetD2D8Async, 12000,                                                                  \
      (CUdeviceptr memory, size_t pitch, unsigned char value, size_t width, size_t height,     \
       CUstream stream))                                                                       \
    X(PointerGetAttribute, 12000, (void *value, int attribute, CUdeviceptr memory))            \
    X(PointerGetAttributes, 12000,                                                             \
      (unsigned int count, int *attributes, void **values, CUdeviceptr memory))                \
    X(StreamCreate, 12000, (CUstream * stream, unsigned int flags))                            \
    X(StreamDestroy, 12000, (CUstream stream))                                                 \
    X(StreamSynchronize, 12000, (CUstream stream))                                             \
    X(StreamQuery, 12000, (CUstream stream))                                                   \
    X(StreamWaitEvent, 12000, (CUstream stream, CUevent event, unsigned int flags))            \
    X(StreamBeginCapture, 12000, (CUstream stream, int mode))                                  \
    X(StreamEndCapture, 12000, (CUstream stream, CUgraph * graph))                             \
    X(StreamIsCapturing, 12000, (CUstream stream, int *status))                                \
    X(EventCreate, 12000, (CUevent * event, unsigned int flags))                               \
    X(EventDestroy, 12000, (CUevent event))                                                    \
    X(EventRecord, 12000, (CUevent event, CUstream stream))                                    \
    X(EventSynchronize, 12000, (CUevent event))                                                \
    X(EventElapsedTime, 12000, (float *milliseconds, CUevent start, CUevent end))              \
    X(GraphInstantiateWithFlags, 12000,                                                        \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                           \
    X(GraphUpload, 12000, (CUgraphExec exec, CUstream stream))                                 \
    X(GraphLaunch, 12000, (CUgraphExec exec, CUstream stream))                                 \
    X(GraphGetNodes, 12000, (CUgraph graph, CUgraphNode * nodes, size_t * count))              \
    X(GraphNodeGetType, 12000, (CUgraphNode node, int *type))                                  \
    X(GraphExecDestroy, 12000, (CUgraphExec exec))                                             \
    X(GraphDestroy, 12000, (CUgraph graph))

/* Entry points that driver 12.0, the oldest supported one, lacks; NULL there. */
#define ATT_CUDA_CALLS_OPTIONAL(X)                                                             \
    X(KernelGetName, 12030, (const char **name, CUkernel kernel))                              \
    X(FuncLoad, 12040, (CUfunction function))                                                  \
    X(KernelGetParamInfo, 12040,                                                               \
      (CUkernel kernel, size_t index, size_t * offset, size_t * bytes))

typedef struct att_cuda_driver {
    int version; /* 13000 is 13.0 */
#define X(name, since, parameters) CUresult(*name) parameters;
    ATT_CUDA_CALLS(X)
    ATT_CUDA_CALLS_OPTIONAL(X)
#undef X
} att_cuda_driver;

/* The driver, opened and initialised, or NULL; *why then says what is missing, on this thread,
 * until the next call. A failure is not remembered: the next call tries again. The environment
 * variable ATTEST_LIBCUDA names another library file. Thread: safe. */
const att_cuda_driver *att_cuda_driver_get(const char **why);

/* ATT_OK for CUDA_SUCCESS. Anything else is recorded as this thread's failure: ATT_E_CUDA
 * (ATT_E_MEMORY if GPU memory is exhausted) with the call, the code's name, the kernel (NULL:
 * none) and, if the context is lost, what that means. */
att_status att_cuda_check(const att_cuda_driver *cu, CUresult code, const char *call,
                          const char *kernel);

/* ATT_CUDA(cu, NULL, MemAlloc, &memory, bytes): the call, checked. */
#define ATT_CUDA(cu, kernel, call, ...)                                                        \
    att_cuda_check((cu), (cu)->call(__VA_ARGS__), "cu" #call, (kernel))

#endif
