/* fake_memory.c: device memory of the fake driver, which is host memory; copies, fills and
 * tensor maps. */
#include <stdlib.h>
#include <string.h>

#include "tests/fake_cuda/fake_driver.h"
#include "tests/fake_cuda/fake_tensor_map.h"

enum { ALIGNMENT = 256 };

static void *address_of(CUdeviceptr memory) {
    return (void *)(uintptr_t)memory;
}

/* A fill on the default stream: as on a GPU, the call returns before it is done. Here it is
 * done as late as possible: when the host waits for a stream, after work that other streams
 * were given meanwhile. */
static struct {
    CUdeviceptr memory;
    unsigned char value;
    size_t count; /* 0: none */
} late_fill;

void fake_fill_late(void) {
    if (late_fill.count > 0) {
        memset(address_of(late_fill.memory), late_fill.value, late_fill.count);
        backend_memory_written(address_of(late_fill.memory), late_fill.count);
    }
    late_fill.count = 0;
}

CUresult fake_TensorMapEncodeTiled(CUtensorMap *map, int type, unsigned int rank, void *address,
                                   const uint64_t *sizes, const uint64_t *strides,
                                   const uint32_t *box, const uint32_t *steps, int interleave,
                                   int swizzle, int promotion, int fill) {
    ENTER("cuTensorMapEncodeTiled");
    return fake_map_encode(map, type, rank, address, sizes, strides, box, steps, interleave,
                           swizzle, promotion, fill);
}

CUresult fake_TensorMapReplaceAddress(CUtensorMap *map, void *address) {
    ENTER("cuTensorMapReplaceAddress");
    return fake_has_context() ? fake_map_replace(map, address) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_MemGetInfo(size_t *free_bytes, size_t *total) {
    ENTER("cuMemGetInfo");
    *free_bytes = (size_t)1 << 30;
    *total = (size_t)1 << 32;
    return CUDA_SUCCESS;
}

CUresult fake_MemAlloc(CUdeviceptr *memory, size_t bytes) {
    ENTER("cuMemAlloc");
    void *block = NULL;
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (posix_memalign(&block, ALIGNMENT, bytes) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    backend_memory_added(block, bytes);
    pthread_mutex_unlock(&fake_lock);
    *memory = (CUdeviceptr)(uintptr_t)block;
    fake_add(&fake_state.memory_live, 1);
    return CUDA_SUCCESS;
}

CUresult fake_MemFree(CUdeviceptr memory) {
    if (!memory)
        return CUDA_SUCCESS;
    fake_finish();
    pthread_mutex_lock(&fake_lock);
    backend_memory_removed(address_of(memory));
    pthread_mutex_unlock(&fake_lock);
    free(address_of(memory));
    fake_add(&fake_state.memory_live, -1);
    return CUDA_SUCCESS;
}

CUresult fake_MemAllocHost(void **memory, size_t bytes) {
    ENTER("cuMemAllocHost");
    *memory = malloc(bytes ? bytes : 1);
    fake_add(&fake_state.memory_live, *memory != NULL);
    return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fake_MemFreeHost(void *memory) {
    fake_add(&fake_state.memory_live, memory ? -1 : 0);
    free(memory);
    return CUDA_SUCCESS;
}

CUresult fake_MemHostRegister(void *memory, size_t bytes, unsigned int flags) {
    ENTER("cuMemHostRegister");
    (void)memory, (void)bytes, (void)flags;
    fake_add(&fake_state.memory_live, 1);
    return CUDA_SUCCESS;
}

CUresult fake_MemHostUnregister(void *memory) {
    (void)memory;
    fake_add(&fake_state.memory_live, -1);
    return CUDA_SUCCESS;
}

/* A GPU also copies bytes that the host's sanitizer has poisoned, such as guard bands: copy
 * uninstrumented, and volatile, so that it does not become a call of memcpy(). */
typedef uint64_t __attribute__((may_alias)) any_word;

__attribute__((noinline, no_sanitize("address"))) static void
copy_unseen(void *to, const void *from, size_t bytes) {
    volatile unsigned char *out = to;
    const unsigned char *in = from;
    size_t i = 0;
    if (((uintptr_t)to | (uintptr_t)from) % sizeof(any_word) == 0)
        for (; i + sizeof(any_word) <= bytes; i += sizeof(any_word))
            *(volatile any_word *)(volatile void *)(out + i) =
                *(const any_word *)(const void *)(in + i);
    for (; i < bytes; i++)
        out[i] = in[i];
}

/* The host writes or reads device memory after the GPU has finished its work. */
static CUresult copy_to_device(CUdeviceptr to, const void *from, size_t bytes) {
    pthread_mutex_lock(&fake_lock);
    const CUresult code = fake_run_launches();
    copy_unseen(address_of(to), from, bytes);
    backend_memory_written(address_of(to), bytes);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static CUresult copy_to_host(void *to, CUdeviceptr from, size_t bytes) {
    pthread_mutex_lock(&fake_lock);
    const CUresult code = fake_run_launches();
    copy_unseen(to, address_of(from), bytes);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

CUresult fake_MemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
    ENTER("cuMemcpyHtoD");
    fake_finish();
    return copy_to_device(to, from, bytes);
}

CUresult fake_MemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
    ENTER("cuMemcpyDtoH");
    fake_finish();
    return copy_to_host(to, from, bytes);
}

CUresult fake_MemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    ENTER("cuMemcpyDtoD");
    return copy_to_device(to, address_of(from), bytes);
}

CUresult fake_MemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    (void)stream;
    ENTER("cuMemcpyHtoD");
    return copy_to_device(to, from, bytes);
}

CUresult fake_MemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    (void)stream;
    ENTER("cuMemcpyDtoH");
    return copy_to_host(to, from, bytes);
}

CUresult fake_MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER("cuMemcpyDtoD");
    return fake_stream_take(
        &(fake_node){
            .type = CU_GRAPH_NODE_TYPE_MEMCPY, .to = to, .from = from, .height = bytes},
        stream);
}

CUresult fake_MemsetD8(CUdeviceptr memory, unsigned char value, size_t count) {
    ENTER("cuMemsetD8");
    const CUresult code = fake_finish();
    pthread_mutex_lock(&fake_lock);
    late_fill.memory = memory;
    late_fill.value = value;
    late_fill.count = count;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

CUresult fake_MemsetD8Async(CUdeviceptr memory, unsigned char value, size_t count,
                            CUstream stream) {
    ENTER("cuMemsetD8");
    return fake_stream_take(&(fake_node){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                         .to = memory,
                                         .value = value,
                                         .width = count,
                                         .height = 1},
                            stream);
}

CUresult fake_MemsetD2D8Async(CUdeviceptr memory, size_t pitch, unsigned char value,
                              size_t width, size_t height, CUstream stream) {
    ENTER("cuMemsetD2D8Async");
    return fake_stream_take(&(fake_node){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                         .to = memory,
                                         .pitch = pitch,
                                         .value = value,
                                         .width = width,
                                         .height = height},
                            stream);
}

/* Every address has the properties that the test sets: by default memory of device 0. */
CUresult fake_PointerGetAttribute(void *value, int attribute, CUdeviceptr memory) {
    ENTER("cuPointerGetAttribute");
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)value = (unsigned int)fake_state.memory_type;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = memory;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)value = (unsigned int)fake_state.memory_managed;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = fake_state.memory_device;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult fake_PointerGetAttributes(unsigned int count, int *attributes, void **values,
                                   CUdeviceptr memory) {
    for (unsigned int i = 0; i < count; i++) {
        const CUresult code = fake_PointerGetAttribute(values[i], attributes[i], memory);
        if (code != CUDA_SUCCESS)
            return code;
    }
    return CUDA_SUCCESS;
}
