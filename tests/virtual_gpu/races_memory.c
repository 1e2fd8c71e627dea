/* races_memory.c: stamps for memory, and the check whether an accessing lane knows about
 * them. */
#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/races_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/virtual_gpu/races_clock.h"
#include "tests/virtual_gpu/checks.h"

/* Set in `lane` if the copy engine works for it; its time is then one that nobody knows. */
enum { ENGINE = 0x8000, LANE_MASK = BLOCK_LANES_MAX - 1 };
#define TIME_NEVER UINT32_MAX

typedef struct races_stamp {
    uint32_t block, time; /* block 0: nobody */
    uint16_t lane, place;
} races_stamp;

typedef struct races_cell {
    races_stamp wrote;
    uint32_t readers, atomics; /* bits of slots that hold a read, or an atomic, since `wrote` */
} races_cell;

/* Slots are stored one after the other, each for all cells: unused ones never become memory.
 * First all readers, then all atomics. A slot is valid only if its bit in the cell is set, so
 * they are reused without clearing. */
struct races_memory {
    size_t cells, mapped;
    int slots; /* a power of 2 */
    races_cell *cell;
    races_stamp *stamps;
    races_memory *next; /* of those at rest */
};

/* Of blocks that ended, newest first: the next block mostly has as much shared memory. */
enum { AT_REST_MAX = 16 };
static races_memory *at_rest;
static int at_rest_count;

static races_memory *take_rested(size_t cells, int slots) {
    for (races_memory **at = &at_rest; *at; at = &(*at)->next) {
        races_memory *memory = *at;
        if (memory->cells == cells && memory->slots == slots) {
            *at = memory->next;
            at_rest_count--;
            memset(memory->cell, 0, cells * sizeof *memory->cell);
            return memory;
        }
    }
    return NULL;
}

static void *map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(
            stderr,
            "virtual GPU: no memory to look for races; ATTEST_VIRTUAL_RACES=0 runs without\n");
        abort();
    }
    return memory;
}

races_memory *races_memory_make(size_t bytes, int slots) {
    const size_t cells = (bytes + RACES_CELL - 1) / RACES_CELL + 1;
    races_memory *memory = take_rested(cells, slots);
    if (memory)
        return memory;
    memory = allocate(sizeof *memory);
    *memory = (races_memory){.cells = cells, .slots = slots};
    const size_t for_cells = (cells * sizeof(races_cell) + 63) / 64 * 64;
    memory->mapped = for_cells + 2 * (size_t)slots * cells * sizeof(races_stamp);
    char *mapped = map(memory->mapped);
    memory->cell = (races_cell *)(void *)mapped;
    memory->stamps = (races_stamp *)(void *)(mapped + for_cells);
    return memory;
}

static void unmap(races_memory *memory) {
    munmap(memory->cell, memory->mapped);
    free(memory);
}

static void unmap_oldest_rested(void) {
    races_memory **at = &at_rest;
    while ((*at)->next)
        at = &(*at)->next;
    unmap(*at);
    *at = NULL;
    at_rest_count--;
}

void races_memory_free(races_memory *memory) {
    if (!memory)
        return;
    if (memory->slots != RACES_SLOTS_SHARED) {
        unmap(memory);
        return;
    }
    memory->next = at_rest;
    at_rest = memory;
    if (++at_rest_count > AT_REST_MAX)
        unmap_oldest_rested();
}

void races_memory_clear(races_memory *memory, size_t offset, size_t bytes) {
    if (!bytes)
        return;
    const size_t first = offset / RACES_CELL, last = (offset + bytes - 1) / RACES_CELL;
    memset(memory->cell + first, 0, (last - first + 1) * sizeof *memory->cell);
}

/* The accessing lane. */
typedef struct visitor {
    races_stamp stamp; /* that it leaves */
    const uint32_t *own;
    const races_clock *knows;
    const races_touch *touch;
    uint16_t lane;
} visitor;

static bool knows_far(const visitor *me, const races_stamp *stamp) {
    if (races_launch_of(stamp->block) < me->knows->launches)
        return true;
    const races_times *times = clock_times(me->knows, stamp->block);
    return times && stamp->time <= times->at[stamp->lane & LANE_MASK];
}

static inline bool knows(const visitor *me, const races_stamp *stamp) {
    if (stamp->block == me->stamp.block)
        return stamp->lane == me->lane || stamp->time <= me->own[stamp->lane & LANE_MASK];
    return stamp->block == 0 || knows_far(me, stamp);
}

static _Noreturn void report(const visitor *me, size_t cell, const races_stamp *stamp,
                             const char *did) {
    static const char *const does[] = {"reads", "writes", "changes atomically"};
    const vgpu_lane *lane = me->touch->lane;
    const vgpu_dim3 id = lane->block->id, other = races_id_of(stamp->block);
    const vgpu_place at = races_place_of(me->stamp.place),
                     before = races_place_of(stamp->place);
    const uint32_t launch = races_launch_of(stamp->block);
    char other_launch[32] = "";
    if (launch != races_launch_of(me->stamp.block))
        snprintf(other_launch, sizeof other_launch, " of launch %u", launch);
    vgpu_fail(
        CHECK_RACE,
        "%s: thread %d of block (%u, %u, %u) near %s:%d %s %s at byte %zu, which %sthread "
        "%d of block "
        "(%u, %u, %u)%s %s near %s:%d; nothing orders the two",
        me->touch->what, lane->number, id.x, id.y, id.z, at.file, at.line,
        does[me->touch->access], me->touch->where, cell * RACES_CELL,
        stamp->lane & ENGINE ? "the copy engine for " : "", stamp->lane & LANE_MASK, other.x,
        other.y, other.z, other_launch, did, before.file, before.line);
}

static inline races_stamp *slot_of(const races_memory *memory, int slot, size_t cell) {
    return &memory->stamps[(size_t)slot * memory->cells + cell];
}

/* `first`: of the slots that `bits` refers to. */
static void check_slots(const visitor *me, const races_memory *memory, size_t cell,
                        uint32_t bits, int first, const char *did) {
    for (; bits; bits &= bits - 1) {
        const races_stamp *stamp = slot_of(memory, first + __builtin_ctz(bits), cell);
        if (!knows(me, stamp))
            report(me, cell, stamp, did);
    }
}

static inline void check_write(const visitor *me, const races_memory *memory, size_t cell) {
    const races_stamp *stamp = &memory->cell[cell].wrote;
    if (!knows(me, stamp))
        report(me, cell, stamp, "wrote");
}

static inline void check_atomics(const visitor *me, const races_memory *memory, size_t cell) {
    if (memory->cell[cell].atomics)
        check_slots(me, memory, cell, memory->cell[cell].atomics, memory->slots,
                    "changed atomically");
}

static inline void check_reads(const visitor *me, const races_memory *memory, size_t cell) {
    if (memory->cell[cell].readers)
        check_slots(me, memory, cell, memory->cell[cell].readers, 0, "read");
}

/* Which of two unordered accesses is kept: either, but always the same one here. */
static uint32_t rank(size_t cell, const races_stamp *stamp) {
    uint32_t x = (uint32_t)cell * 2654435761u ^ stamp->lane * 40503u ^ stamp->block * 69069u;
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ x >> 13;
}

static inline void keep(const visitor *me, races_stamp *stamp, uint32_t *bits, uint32_t bit,
                        size_t cell) {
    if (*bits & bit && !knows(me, stamp) && rank(cell, stamp) > rank(cell, &me->stamp))
        return;
    *stamp = me->stamp;
    *bits |= bit;
}

/* The lane was here and has published nothing since: nobody in between could know, so nobody
 * did. */
static inline bool is_own_stamp(const visitor *me, const races_stamp *stamp) {
    return stamp->lane == me->lane && stamp->time == me->stamp.time &&
           stamp->block == me->stamp.block;
}

static void read_cells(const visitor *me, races_memory *memory, size_t first, size_t last,
                       int slot) {
    races_stamp *stamps = slot_of(memory, slot, 0);
    const uint32_t bit = 1u << slot;
    for (size_t i = first; i <= last; i++) {
        races_cell *cell = &memory->cell[i];
        if (cell->readers & bit && is_own_stamp(me, &stamps[i]))
            continue;
        check_write(me, memory, i);
        check_atomics(me, memory, i);
        keep(me, &stamps[i], &cell->readers, bit, i);
    }
}

static void write_cells(const visitor *me, races_memory *memory, size_t first, size_t last) {
    for (size_t i = first; i <= last; i++) {
        races_cell *cell = &memory->cell[i];
        if (is_own_stamp(me, &cell->wrote)) {
            cell->wrote.place = me->stamp.place;
            continue;
        }
        check_write(me, memory, i);
        check_atomics(me, memory, i);
        check_reads(me, memory, i);
        *cell = (races_cell){.wrote = me->stamp};
    }
}

static void change_cells(const visitor *me, races_memory *memory, size_t first, size_t last,
                         int slot) {
    races_stamp *stamps = slot_of(memory, memory->slots + slot, 0);
    for (size_t cell = first; cell <= last; cell++) {
        check_write(me, memory, cell);
        check_reads(me, memory, cell);
        keep(me, &stamps[cell], &memory->cell[cell].atomics, 1u << slot, cell);
    }
}

static uint16_t place_of(vgpu_lane *lane) {
    races_lane *races = &lane->races;
    if (races->file != lane->at.file || races->line != lane->at.line) {
        races->file = lane->at.file;
        races->line = lane->at.line;
        races->place = races_place_number(lane->at);
    }
    return races->place;
}

static races_stamp stamp_of(vgpu_lane *lane) {
    return (races_stamp){(uint32_t)lane->block->number, lane->races.time,
                         (uint16_t)lane->number, place_of(lane)};
}

static int slot_number(const races_memory *memory, const vgpu_lane *lane) {
    const int from = memory->slots == RACES_SLOTS_SHARED ? lane->block->rank * 5
                                                         : (int)(lane->block->number * 3);
    return (lane->warp->index + from) & (memory->slots - 1);
}

void races_memory_touch(races_memory *memory, const races_touch *touch, size_t offset,
                        size_t bytes) {
    if (!bytes)
        return;
    vgpu_lane *lane = touch->lane;
    visitor me = {.stamp = stamp_of(lane),
                  .own = lane->races.own->at,
                  .knows = lane->races.knows,
                  .touch = touch,
                  .lane = (uint16_t)lane->number};
    if (touch->async) {
        me.stamp.lane |= ENGINE;
        me.stamp.time = TIME_NEVER;
    }
    const int slot = slot_number(memory, lane);
    const size_t first = offset / RACES_CELL, last = (offset + bytes - 1) / RACES_CELL;
    switch (touch->access) {
    case RACES_READ:
        read_cells(&me, memory, first, last, slot);
        break;
    case RACES_WRITE:
        write_cells(&me, memory, first, last);
        break;
    case RACES_ATOMIC:
        change_cells(&me, memory, first, last, slot);
        break;
    }
}

static void land(races_stamp *stamp, const races_stamp *as) {
    if (stamp->block == as->block && stamp->lane == (as->lane | ENGINE))
        *stamp = (races_stamp){as->block, as->time, as->lane, stamp->place};
}

void races_memory_landed(races_memory *memory, vgpu_lane *lane, size_t offset, size_t bytes) {
    if (!bytes)
        return;
    const races_stamp as = stamp_of(lane);
    const int slot = slot_number(memory, lane);
    const size_t last = (offset + bytes - 1) / RACES_CELL;
    for (size_t cell = offset / RACES_CELL; cell <= last; cell++) {
        land(&memory->cell[cell].wrote, &as);
        if (memory->cell[cell].atomics >> slot & 1)
            land(slot_of(memory, memory->slots + slot, cell), &as);
    }
}
