/* device_pool.c: GPU memory that is reused from problem to problem. */
#include "lab/tensors/device_pool.h"

#include <pthread.h>
#include <stdint.h>

#include "cuda/driver.h"

enum { KEPT_MOST = 64, ROUND = 64 << 10 };

typedef struct kept {
    att_cuda_device *gpu;
    void *block;
    size_t bytes;
} kept;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kept pool[KEPT_MOST];
static size_t pool_count;

static void *from_driver(att_cuda_device *gpu, size_t bytes) {
    CUdeviceptr memory = 0;
    const CUresult code = att_cuda_device_driver(gpu)->MemAlloc(&memory, bytes);
    return code == CUDA_SUCCESS ? (void *)(uintptr_t)memory : NULL;
}

static void to_driver(att_cuda_device *gpu, void *block) {
    att_cuda_device_driver(gpu)->MemFree((CUdeviceptr)(uintptr_t)block);
}

/* A kept block that fits and wastes at most half of its size. */
static void *take(att_cuda_device *gpu, size_t *bytes) {
    size_t best = pool_count;
    for (size_t i = 0; i < pool_count; i++)
        if (pool[i].gpu == gpu && pool[i].bytes >= *bytes && pool[i].bytes / 2 <= *bytes &&
            (best == pool_count || pool[i].bytes < pool[best].bytes))
            best = i;
    if (best == pool_count)
        return NULL;
    void *block = pool[best].block;
    *bytes = pool[best].bytes;
    pool[best] = pool[--pool_count];
    return block;
}

static void empty(att_cuda_device *gpu) {
    for (size_t i = pool_count; i-- > 0;)
        if (pool[i].gpu == gpu) {
            to_driver(gpu, pool[i].block);
            pool[i] = pool[--pool_count];
        }
}

void *lab_device_allocate(att_cuda_device *gpu, size_t *bytes, int exact) {
    if (exact)
        return from_driver(gpu, *bytes);
    *bytes = (*bytes + ROUND - 1) / ROUND * ROUND;
    pthread_mutex_lock(&lock);
    void *block = take(gpu, bytes);
    if (!block)
        block = from_driver(gpu, *bytes);
    if (!block) {
        empty(gpu);
        block = from_driver(gpu, *bytes);
    }
    pthread_mutex_unlock(&lock);
    return block;
}

void lab_device_release(att_cuda_device *gpu, void *block, size_t bytes, int exact) {
    if (!block)
        return;
    const att_cuda_driver *cu = att_cuda_device_driver(gpu);
    /* No answer may stay in memory that the next subject is given. The fill returns before it
     * is done, on a stream that the next subject's stream does not wait for. */
    cu->MemsetD8((CUdeviceptr)(uintptr_t)block, 0, bytes);
    cu->StreamSynchronize(NULL);
    pthread_mutex_lock(&lock);
    if (exact || pool_count == KEPT_MOST)
        to_driver(gpu, block);
    else
        pool[pool_count++] = (kept){gpu, block, bytes};
    pthread_mutex_unlock(&lock);
}
