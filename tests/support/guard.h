/* guard.h: buffers that detect writes and reads outside them. */
#ifndef TESTS_SUPPORT_GUARD_H
#define TESTS_SUPPORT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* A payload that ends at an unreadable page and starts after a band of known bytes. */
typedef struct guarded {
    unsigned char *data;
    size_t bytes;
    unsigned char *map;
    size_t map_bytes;
} guarded;

/* Map `bytes` (0 is allowed) at a multiple of `align`, a power of two up to the page size. The
 * payload ends as close to the unreadable page as the alignment allows. Aborts if memory runs
 * out. */
guarded guard_open(size_t bytes, size_t align);

/* No byte around the payload has changed. */
bool guard_intact(const guarded *block);

void guard_close(guarded *block);

#endif
