/* array_slot.h: memory for the arrays of a case, between bytes that may not be touched.
 *
 * A slot is mapped once and used by every case. An array ends at an unreadable page, as near as its alignment allows, which stops
 * instructions that the address sanitizer does not watch; what is left around it is poisoned for the sanitizer, and holds known
 * bytes that are compared afterwards. */
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

/* An array of `bytes`, all of them `fill`, at a multiple of `align` but not of twice that, where there is room: nothing may lean on
 * more alignment than was promised. NULL where it does not fit. */
void *array_open(array_slot *slot, size_t bytes, size_t align, unsigned char fill);

/* Whether the bytes around the array are as they were. */
bool array_intact(const array_slot *slot);

#endif
