/* array_slot.c: one mapping per slot, followed by an unreadable page. */
#include "tests/fuzz/array_slot.h"

#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, BAND_BYTE = 0xb5 };

/* All of it is poisoned: an array unpoisons what it needs, until the next one comes. */
static void map_slot(array_slot *slot) {
    void *map = mmap(NULL, ARRAY_SLOT_BYTES + PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect((char *)map + ARRAY_SLOT_BYTES, PAGE, PROT_NONE) != 0)
        abort();
    slot->map = slot->data = map;
    ASAN_POISON_MEMORY_REGION(slot->map, ARRAY_SLOT_BYTES);
}

void *array_open(array_slot *slot, size_t bytes, size_t align, unsigned char fill) {
    if (!slot->map)
        map_slot(slot);
    if (bytes > ARRAY_SLOT_BYTES - 4 * ARRAY_BAND || align > ARRAY_BAND)
        return NULL;
    unsigned char *end = slot->map + ARRAY_SLOT_BYTES;
    ASAN_POISON_MEMORY_REGION(slot->data, slot->bytes);
    uintptr_t base = (uintptr_t)(end - bytes) / align * align;
    if (base % (2 * align) == 0)
        base -= align;
    slot->data = slot->map + (base - (uintptr_t)slot->map);
    slot->bytes = bytes;
    ASAN_UNPOISON_MEMORY_REGION(slot->data - ARRAY_BAND,
                                (size_t)(end - slot->data) + ARRAY_BAND);
    memset(slot->data - ARRAY_BAND, BAND_BYTE, ARRAY_BAND);
    memset(slot->data, fill, bytes);
    memset(slot->data + bytes, BAND_BYTE, (size_t)(end - slot->data) - bytes);
    ASAN_POISON_MEMORY_REGION(slot->data - ARRAY_BAND, ARRAY_BAND);
    ASAN_POISON_MEMORY_REGION(slot->data + bytes, (size_t)(end - slot->data) - bytes);
    return slot->data;
}

bool array_intact(const array_slot *slot) {
    unsigned char *end = slot->map + ARRAY_SLOT_BYTES, *behind = slot->data + slot->bytes;
    bool intact = true;
    ASAN_UNPOISON_MEMORY_REGION(slot->data - ARRAY_BAND, ARRAY_BAND);
    ASAN_UNPOISON_MEMORY_REGION(behind, (size_t)(end - behind));
    for (const unsigned char *at = slot->data - ARRAY_BAND; at < slot->data; at++)
        intact = intact && *at == BAND_BYTE;
    for (const unsigned char *at = behind; at < end; at++)
        intact = intact && *at == BAND_BYTE;
    ASAN_POISON_MEMORY_REGION(slot->data - ARRAY_BAND, ARRAY_BAND);
    ASAN_POISON_MEMORY_REGION(behind, (size_t)(end - behind));
    return intact;
}
