/* races_memory.h: who has touched each 2 bytes of a piece of memory.
 *
 * A place keeps its last write, and the reads and the atomics since: one of each per slot. A
 * slot is a warp in shared memory, and one of a few groups of warps in global memory. A later
 * read of a slot replaces an earlier one that it knows about: whatever is ordered after the
 * later one is after both. Of two unordered reads one is kept, a different one from place to
 * place; so a fault of a single lane may be missed at one place, and is found at another.
 * Single bytes are not distinguished: two lanes that each write one byte of the same 2 race. */
#ifndef ATT_VGPU_RACES_MEMORY_H
#define ATT_VGPU_RACES_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/virtual_gpu/lanes.h"

enum { RACES_CELL = 2, RACES_SLOTS_SHARED = 32, RACES_SLOTS_GLOBAL = 4 };

typedef struct races_memory races_memory;

races_memory *races_memory_make(size_t bytes, int slots);
void races_memory_free(races_memory *memory); /* or NULL */

/* The host wrote here while nothing ran. */
void races_memory_clear(races_memory *memory, size_t offset, size_t bytes);

typedef struct races_touch {
    vgpu_lane *lane;
    races_access access;
    bool async;               /* by the copy engine: not even the lane itself knows when */
    const char *what, *where; /* for the report: the instruction, and "shared memory" */
} races_touch;

void races_memory_touch(races_memory *memory, const races_touch *touch, size_t offset,
                        size_t bytes);

/* What the copy engine did for the lane now counts as done by the lane. */
void races_memory_landed(races_memory *memory, vgpu_lane *lane, size_t offset, size_t bytes);

/* Blocks by number, for stamps and reports. */
void races_block_named(const vgpu_block *block);
uint32_t races_launch_of(uint32_t block);
vgpu_dim3 races_id_of(uint32_t block);

/* A source location as a number that fits in a stamp; 0: there were too many. */
uint16_t races_place_number(vgpu_place place);
vgpu_place races_place_of(uint16_t number);

#endif
