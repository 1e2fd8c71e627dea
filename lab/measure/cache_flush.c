/* cache_flush.c: overwrites twice the size of the largest cache. */
#include "lab/measure/cache_flush.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/device.h"
#include "cuda/driver.h"
#include "lab/tensors/device_pool.h"

/* For a processor that does not report the sizes of its caches. */
enum { SECOND_LEVEL_ASSUMED = 1 << 20, LAST_LEVEL_ASSUMED = 64 << 20 };

size_t lab_cache_second_level(const lab_mirror *mirror) {
    if (mirror->gpu)
        return (size_t)att_cuda_device_limits(mirror->gpu)->l2_bytes;
    const long level2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return level2 > 0 ? (size_t)level2 : SECOND_LEVEL_ASSUMED;
}

static size_t last_level(const lab_mirror *mirror) {
    const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return mirror->gpu  ? lab_cache_second_level(mirror)
           : level3 > 0 ? (size_t)level3
                        : LAST_LEVEL_ASSUMED;
}

void lab_cache_flush_close(lab_cache_flush *f) {
    if (f->block && !f->gpu) {
        free(f->block);
    } else if (f->block && att_cuda_device_enter(f->gpu) == ATT_OK) {
        lab_device_release(f->gpu, f->block, f->block_bytes, 0);
        att_cuda_device_leave(f->gpu);
    }
    *f = (lab_cache_flush){.block = NULL};
}

static bool no_memory(size_t bytes, lab_message *why) {
    return lab_fail(why, "no memory of %zu bytes to flush the cache with", bytes);
}

static bool flush_cpu(lab_cache_flush *f, size_t bytes, lab_message *why) {
    unsigned char *block = f->block ? f->block : malloc(bytes);
    if (!block)
        return no_memory(bytes, why);
    memset(block, 1, bytes);
    f->block = block;
    return true;
}

/* The device must be current. */
static bool flush_gpu(lab_cache_flush *f, const lab_mirror *mirror, size_t bytes,
                      lab_message *why) {
    const att_cuda_driver *cu = att_cuda_device_driver(mirror->gpu);
    if (!f->block) {
        f->gpu = mirror->gpu;
        f->block_bytes = bytes;
        f->block = lab_device_allocate(f->gpu, &f->block_bytes, 0);
    }
    if (!f->block)
        return no_memory(bytes, why);
    return ATT_CUDA(cu, NULL, MemsetD8Async, (CUdeviceptr)(uintptr_t)f->block, 1, bytes,
                    mirror->stream) == ATT_OK ||
           lab_fail(why, "%s", att_last_error()->text);
}

bool lab_cache_flush_run(lab_cache_flush *f, const lab_mirror *mirror, lab_message *why) {
    const size_t bytes = 2 * last_level(mirror);
    if (f->block && f->gpu != mirror->gpu)
        lab_cache_flush_close(f);
    if (!mirror->gpu)
        return flush_cpu(f, bytes, why);
    if (att_cuda_device_enter(mirror->gpu) != ATT_OK)
        return lab_fail(why, "%s", att_last_error()->text);
    const bool ok = flush_gpu(f, mirror, bytes, why);
    att_cuda_device_leave(mirror->gpu);
    return ok;
}
