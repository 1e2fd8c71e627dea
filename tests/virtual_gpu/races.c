/* races.c: what lanes know about each other, and how that knowledge is passed on. */
#include "tests/virtual_gpu/races.h"

#include <stdlib.h>
#include <string.h>

#include "tests/virtual_gpu/global_memory.h"
#include "tests/virtual_gpu/lanes.h"
#include "tests/virtual_gpu/races_clock.h"
#include "tests/virtual_gpu/races_memory.h"

bool races_on(void) {
    static int on = -1;
    if (on < 0) {
        const char *wish = getenv("ATTEST_VIRTUAL_RACES");
        on = !wish || strcmp(wish, "0") != 0;
    }
    return on != 0;
}

static uint32_t block_number(const vgpu_lane *lane) {
    return (uint32_t)lane->block->number;
}

/* Takes the reference. */
static void lane_knows(vgpu_lane *lane, races_clock *clock) {
    races_drop(lane->races.knows);
    lane->races.knows = clock;
    lane->races.own = clock_times(clock, block_number(lane));
}

void races_block_begin(vgpu_block *block) {
    if (!races_on())
        return;
    races_block_named(block);
    races_clock *nothing = clock_of_block(
        (uint32_t)block->number, (uint32_t)block->cluster->grid->number, block->lanes_count);
    for (int i = 0; i < block->lanes_count; i++) {
        block->lanes[i].races = (races_lane){.time = 1};
        lane_knows(&block->lanes[i], races_share(nothing));
    }
    races_drop(nothing);
    block->races.shared = races_memory_make(block->bytes, RACES_SLOTS_SHARED);
}

void races_block_end(vgpu_block *block) {
    if (!races_on())
        return;
    for (int i = 0; i < block->lanes_count; i++) {
        races_lane *lane = &block->lanes[i].races;
        races_drop(lane->knows);
        races_drop(lane->fenced);
        races_drop(lane->seen);
        *lane = (races_lane){0};
    }
    races_atomics_end(block);
    races_memory_free(block->races.shared);
    block->races.shared = NULL;
}

races_clock *races_now(vgpu_lane *lane) {
    if (!races_on())
        return NULL;
    races_clock *now = races_share(lane->races.knows);
    clock_set_time(&now, block_number(lane), lane->number, lane->races.time++);
    return now;
}

void races_leave(races_place *place, vgpu_lane *lane) {
    if (!races_on())
        return;
    races_clock *knows = lane->races.knows;
    if (place->last != knows) {
        clock_add(&place->gathering, knows);
        races_drop(place->last);
        place->last = races_share(knows);
    }
    clock_set_time(&place->gathering, block_number(lane), lane->number, lane->races.time++);
}

void races_leave_clock(races_place *place, const races_clock *clock) {
    if (clock)
        clock_add(&place->gathering, (races_clock *)clock);
}

void races_flip(races_place *place) {
    races_drop(place->ready);
    races_drop(place->last);
    *place = (races_place){.ready = place->gathering};
}

void races_take(const races_place *place, vgpu_lane *lane) {
    races_take_clock(place->ready, lane);
}

void races_take_clock(const races_clock *clock, vgpu_lane *lane) {
    if (clock && clock != lane->races.knows)
        lane_knows(lane, clock_joined(lane->races.knows, (races_clock *)clock));
}

void races_forget(races_place *place) {
    races_drop(place->gathering);
    races_drop(place->ready);
    races_drop(place->last);
    *place = (races_place){0};
}

void races_meet(vgpu_warp *warp, unsigned mask) {
    if (!races_on())
        return;
    races_place place = {0};
    for (unsigned left = mask; left; left &= left - 1)
        races_leave(&place, warp->lanes[__builtin_ctz(left)]);
    for (unsigned left = mask; left; left &= left - 1)
        lane_knows(warp->lanes[__builtin_ctz(left)], races_share(place.gathering));
    races_forget(&place);
}

void races_launches_known(vgpu_lane *lane, long launch) {
    static races_clock
        *known; /* the last one asked for: all lanes of a launch ask for the same */
    if (!races_on())
        return;
    if (!known || known->launches != (uint32_t)launch) {
        races_drop(known);
        known = clock_of_launches((uint32_t)launch);
    }
    races_take_clock(known, lane);
}

void races_shared(vgpu_lane *lane, vgpu_block *block, unsigned offset, unsigned bytes,
                  races_access access, const char *what) {
    if (!races_on())
        return;
    const races_touch touch = {
        lane, access, false, what,
        lane->block == block ? "shared memory" : "shared memory of another block"};
    races_memory_touch(block->races.shared, &touch, offset, bytes);
}

static void touch_global(const races_touch *touch, const void *memory, size_t bytes) {
    size_t offset;
    races_memory *races = global_races(memory, &offset);
    if (races)
        races_memory_touch(races, touch, offset, bytes);
}

void races_global(vgpu_lane *lane, const void *memory, size_t bytes, races_access access,
                  const char *what) {
    if (!races_on())
        return;
    const races_touch touch = {lane, access, false, what, "global memory"};
    touch_global(&touch, memory, bytes);
}

void races_global_async(vgpu_lane *lane, const void *memory, size_t bytes, races_access access,
                        const char *what) {
    if (!races_on())
        return;
    const races_touch touch = {lane, access, true, what, "global memory"};
    touch_global(&touch, memory, bytes);
}

void races_global_landed(vgpu_lane *lane, const void *memory, size_t bytes) {
    if (!races_on())
        return;
    size_t offset;
    races_memory *races = global_races(memory, &offset);
    if (races)
        races_memory_landed(races, lane, offset, bytes);
}
