/* array_slot.h: memory for the arrays of a case, between bytes that must not be touched.
 *
 * A slot is mapped once and used by every case. An array ends at an unreadable page, as close
 * as its alignment allows, which catches instructions that the address sanitizer does not
 * instrument. The rest around it is poisoned for the sanitizer, and has known bytes that are
 * compared afterwards. */
#ifndef FUZZ_ARRAY_SLOT_H
#define FUZZ_ARRAY_SLOT_H

#include <stdbool.h>
#include <stddef.h>

enum { ARRAY_SLOT_BYTES = 1 << 20, ARRAY_BAND = 256 };

typedef struct array_slot {
    unsigned char *map; /* NULL until it is first used */
    unsigned char *data;
    size_t bytes;
} array_slot;

/* An array of `bytes`, all set to `fill`, at a multiple of `align` but not of twice that, if
 * there is room: nothing may rely on more alignment than promised. NULL if it does not fit. */
void *array_open(array_slot *slot, size_t bytes, size_t align, unsigned char fill);

/* Whether the bytes around the array are unchanged. */
bool array_intact(const array_slot *slot);

#endif
