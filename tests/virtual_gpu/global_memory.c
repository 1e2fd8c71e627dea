/* global_memory.c: allocations by address, which of their bytes were written, and the checks of
 * each access. */
#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/global_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/virtual_gpu/races_memory.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/virtual_gpu.h"

typedef struct allocation {
    const char *begin;
    size_t bytes;
    uint64_t *written; /* a bit for each byte */
    races_memory *races;
} allocation;

static allocation *all; /* by address, rising */
static size_t count, room;
static size_t last; /* that was looked up */

static bool contains(const allocation *a, const char *at) {
    return (size_t)((uintptr_t)at - (uintptr_t)a->begin) < a->bytes;
}

/* The number of allocations that begin at or before `at`. */
static size_t begun(const char *at) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if ((uintptr_t)all[middle].begin <= (uintptr_t)at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static allocation *find(const char *at) {
    if (last < count && contains(&all[last], at))
        return &all[last];
    const size_t n = begun(at);
    if (n == 0 || !contains(&all[n - 1], at))
        return NULL;
    last = n - 1;
    return &all[last];
}

void vgpu_memory_add(void *memory, size_t bytes) {
    if (count == room) {
        room = room * 2 + 16;
        all = allocate_grown(all, room * sizeof *all);
    }
    const size_t at = begun(memory);
    memmove(all + at + 1, all + at, (count - at) * sizeof *all);
    count++;
    const size_t words = bytes / 64 + 1;
    all[at] = (allocation){memory, bytes, allocate_zeroed(words, 8),
                           races_on() ? races_memory_make(bytes, RACES_SLOTS_GLOBAL) : NULL};
}

void vgpu_memory_remove(void *memory) {
    const size_t n = begun(memory);
    if (n == 0 || all[n - 1].begin != memory)
        return;
    allocation *a = &all[n - 1];
    races_atomics_forget(a->begin, a->bytes);
    races_memory_free(a->races);
    free(a->written);
    memmove(a, a + 1, (count - n) * sizeof *a);
    count--;
}

/* Bits from `bit` on that lie in one word. */
static uint64_t word_bits(size_t bit, size_t bits) {
    return (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1) << bit % 64;
}

static size_t in_word(size_t bit, size_t bits) {
    return bits < 64 - bit % 64 ? bits : 64 - bit % 64;
}

static void set_written(allocation *a, size_t offset, size_t bytes) {
    while (bytes) {
        const size_t n = in_word(offset, bytes);
        a->written[offset / 64] |= word_bits(offset, n);
        offset += n;
        bytes -= n;
    }
}

/* The first unwritten byte; `bytes`: none. */
static size_t first_unwritten(const allocation *a, size_t offset, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        const size_t n = in_word(offset + done, bytes - done);
        const uint64_t missing =
            ~a->written[(offset + done) / 64] & word_bits(offset + done, n);
        if (missing)
            return done + (size_t)__builtin_ctzll(missing) - (offset + done) % 64;
        done += n;
    }
    return bytes;
}

void vgpu_memory_written(void *memory, size_t bytes) {
    allocation *a = find(memory);
    if (!a || !bytes)
        return;
    const size_t offset = (size_t)((const char *)memory - a->begin);
    if (bytes > a->bytes - offset)
        bytes = a->bytes - offset;
    set_written(a, offset, bytes);
    races_atomics_forget(memory, bytes);
    if (a->races)
        races_memory_clear(a->races, offset, bytes);
}

static const char *verb(global_access access) {
    static const char *const verbs[] = {"reads", "writes", "changes atomically"};
    return verbs[access];
}

/* How far the range is from the allocation. */
static uintptr_t distance(const allocation *a, uintptr_t at, size_t bytes) {
    const uintptr_t begin = (uintptr_t)a->begin, end = begin + a->bytes;
    if (at + bytes <= begin)
        return begin - (at + bytes);
    return at >= end ? at - end : 0;
}

static _Noreturn void out_of_bounds(const void *memory, size_t bytes, global_access access,
                                    const char *what) {
    const uintptr_t at = (uintptr_t)memory;
    const allocation *nearest = NULL;
    for (size_t i = 0; i < count; i++)
        if (!nearest || distance(&all[i], at, bytes) < distance(nearest, at, bytes))
            nearest = &all[i];
    if (!nearest)
        vgpu_fail(CHECK_BOUNDS, "%s: %s %zu bytes at %p, and no memory is allocated", what,
                  verb(access), bytes, memory);
    vgpu_fail(CHECK_BOUNDS,
              "%s: %s %zu bytes at byte %" PRIdPTR
              " of an allocation of %zu bytes, the nearest to %p",
              what, verb(access), bytes, (intptr_t)(at - (uintptr_t)nearest->begin),
              nearest->bytes, memory);
}

static allocation *find_all_of(const void *memory, size_t bytes, global_access access,
                               const char *what) {
    allocation *a = find(memory);
    if (!a || bytes > a->bytes - (size_t)((const char *)memory - a->begin))
        out_of_bounds(memory, bytes, access, what);
    return a;
}

/* The writes of uninstrumented C code are unknown, in this launch and before. */
static bool knows_writes(const vgpu_lane *lane) {
    return lane->block->cluster->grid->entry->is_watched;
}

/* Check bounds and unwritten bytes. */
static void check(const vgpu_lane *lane, const void *memory, size_t bytes, global_access access,
                  const char *what) {
    allocation *a = find_all_of(memory, bytes, access, what);
    const size_t offset = (size_t)((const char *)memory - a->begin);
    if (access != GLOBAL_WRITE && knows_writes(lane)) {
        const size_t missing = first_unwritten(a, offset, bytes);
        if (missing < bytes)
            vgpu_fail(CHECK_UNINITIALISED,
                      "%s: %s byte %zu of an allocation of %zu bytes, which was never written",
                      what, verb(access), offset + missing, a->bytes);
    }
    if (access != GLOBAL_READ)
        set_written(a, offset, bytes);
}

void global_touch(vgpu_lane *lane, const void *memory, size_t bytes, global_access access,
                  const char *what) {
    if (!bytes)
        return;
    check(lane, memory, bytes, access, what);
    races_global(lane, memory, bytes, (races_access)access, what);
}

void global_touch_async(vgpu_lane *lane, const void *memory, size_t bytes, global_access access,
                        const char *what) {
    if (access == GLOBAL_READ || !bytes) {
        global_touch(lane, memory, bytes, access, what);
        return;
    }
    check(lane, memory, bytes, access, what);
    races_global_async(lane, memory, bytes, (races_access)access, what);
}

void global_landed(vgpu_lane *lane, const void *memory, size_t bytes) {
    races_global_landed(lane, memory, bytes);
}

bool global_contains(const void *memory) {
    return find(memory) != NULL;
}

races_memory *global_races(const void *memory, size_t *offset) {
    const allocation *a = find(memory);
    if (!a)
        return NULL;
    *offset = (size_t)((const char *)memory - a->begin);
    return a->races;
}
