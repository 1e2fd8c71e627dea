/* cache_flush.h: the sizes of the caches, and a flush that removes a problem's data from them.
 *
 * A flush overwrites twice the size of the largest cache: the second level of a GPU, the last
 * level of a CPU. The written data may still be on its way to memory when the next call begins,
 * as after any other work. */
#ifndef LAB_CACHE_FLUSH_H
#define LAB_CACHE_FLUSH_H

#include <stddef.h>

#include "lab/base/message.h"
#include "lab/tensors/device_memory.h"

/* Bytes of the second-level cache of the mirror's device (of one core, on a CPU); a default if
 * the machine does not report it. */
size_t lab_cache_second_level(const lab_mirror *mirror);

typedef struct lab_cache_flush {
    struct att_cuda_device *gpu; /* NULL on the CPU */
    unsigned char *block;        /* NULL: not allocated yet */
    size_t block_bytes;
} lab_cache_flush;

/* Flush the caches of the mirror's device; on a GPU in the order of the mirror's stream,
 * without waiting. The first flush on a device allocates the memory for it. */
bool lab_cache_flush_run(lab_cache_flush *flush, const lab_mirror *mirror, lab_message *why);

/* Free the memory. */
void lab_cache_flush_close(lab_cache_flush *flush);

#endif
