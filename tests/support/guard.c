/* guard.c: guard bands made of a canary pattern and of unmapped pages. */
#include "tests/support/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, CANARY = 0xc5 };

static size_t round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

guarded guard_open(size_t bytes, size_t align) {
    /* One unreadable page, at least one page of canary before the payload, one unreadable page. */
    const size_t inner = PAGE + round_up(bytes, PAGE);
    guarded block = {.bytes = bytes, .map_bytes = inner + (size_t)2 * PAGE};
    block.map = mmap(NULL, block.map_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block.map == MAP_FAILED || mprotect(block.map + PAGE, inner, PROT_READ | PROT_WRITE)) {
        perror("guard_open");
        abort();
    }
    const size_t start = (PAGE + inner - bytes) / align * align;
    block.data = block.map + start;
    memset(block.map + PAGE, CANARY, start - PAGE);
    memset(block.data + bytes, CANARY, PAGE + inner - start - bytes);
    return block;
}

static bool all_canary(const unsigned char *from, const unsigned char *to) {
    while (from < to)
        if (*from++ != CANARY)
            return false;
    return true;
}

bool guard_intact(const guarded *block) {
    const unsigned char *last_page = block->map + block->map_bytes - PAGE;
    return all_canary(block->map + PAGE, block->data) &&
           all_canary(block->data + block->bytes, last_page);
}

void guard_close(guarded *block) {
    if (block->map)
        munmap(block->map, block->map_bytes);
    *block = (guarded){0};
}
