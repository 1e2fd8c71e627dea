/* alloc.c: aligned, zeroed, counted allocation. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static atomic_long fail_after = -1;
static atomic_long live;

void att_alloc_fail_after(long n) {
    atomic_store(&fail_after, n);
}

long att_alloc_live(void) {
    return atomic_load(&live);
}

void *att_alloc(size_t bytes) {
    if (atomic_load(&fail_after) >= 0 && atomic_fetch_sub(&fail_after, 1) == 0)
        return NULL;
    if (bytes > SIZE_MAX - ALIGNMENT)
        return NULL;
    const size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *memory = aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);
    if (!memory)
        return NULL;
    memset(memory, 0, rounded);
    atomic_fetch_add(&live, 1);
    return memory;
}

void att_free(void *memory) {
    if (!memory)
        return;
    atomic_fetch_sub(&live, 1);
    free(memory);
}
