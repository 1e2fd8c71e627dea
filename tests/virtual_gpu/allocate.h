/* allocate.h: memory of the virtual GPU itself. If it runs out, nothing can be done: the
 * process ends. */
#ifndef ATT_VGPU_ALLOCATE_H
#define ATT_VGPU_ALLOCATE_H

#include <stdio.h>
#include <stdlib.h>

static inline void *allocated(void *memory, size_t bytes) {
    if (memory)
        return memory;
    fprintf(stderr, "virtual GPU: no memory for %zu bytes\n", bytes);
    abort();
}

static inline void *allocate(size_t bytes) {
    return allocated(malloc(bytes ? bytes : 1), bytes);
}

static inline void *allocate_zeroed(size_t count, size_t bytes) {
    return allocated(calloc(count, bytes), count * bytes);
}

/* Aligned to `align`; the size is rounded up to a multiple of it. */
static inline void *allocate_aligned(size_t align, size_t bytes) {
    return allocated(aligned_alloc(align, (bytes + align - 1) / align * align), bytes);
}

static inline void *allocate_grown(void *memory, size_t bytes) {
    return allocated(realloc(memory, bytes), bytes);
}

#endif
