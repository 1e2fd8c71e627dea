/* races_atomics.c: what lanes publish through atomics and fences.
 *
 * A relaxed atomic carries what its lane knew at its last fence, and what it reads is known
 * from the next fence on. A chain of atomics on one place carries what all of them
 * contributed. */
#include <stdlib.h>

#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/global_memory.h"
#include "tests/virtual_gpu/lanes.h"
#include "tests/virtual_gpu/races_clock.h"
#include "tests/virtual_gpu/races_memory.h"

typedef struct atomic_place {
    const char *memory;
    long owner; /* block whose shared memory it is, by number; 0: global memory */
    races_clock *told;
    struct atomic_place *next;
} atomic_place;

enum { WORD = 4, BUCKETS = 256 };
static atomic_place *buckets[BUCKETS]; /* each 4 bytes that an atomic touched */

/* Static shared memory of all blocks may be at the same address, one at a time. */
static long owner_of(const vgpu_lane *lane, const char *memory) {
    if (global_contains(memory))
        return 0;
    const vgpu_cluster *cluster = lane->block->cluster;
    for (int i = 0; i < cluster->count; i++) {
        const vgpu_block *block = &cluster->blocks[i];
        if (memory >= block->memory && memory < block->memory + block->bytes)
            return block->number;
    }
    return lane->block->number;
}

static atomic_place *place_at(const vgpu_lane *lane, const char *memory) {
    const long owner = owner_of(lane, memory);
    atomic_place **bucket = &buckets[(uintptr_t)memory / WORD % BUCKETS];
    for (atomic_place *place = *bucket; place; place = place->next)
        if (place->memory == memory && place->owner == owner)
            return place;
    atomic_place *place = allocate(sizeof *place);
    *place = (atomic_place){memory, owner, NULL, *bucket};
    return *bucket = place;
}

static void forget(atomic_place **at) {
    atomic_place *place = *at;
    *at = place->next;
    races_drop(place->told);
    free(place);
}

void races_atomics_forget(const void *memory, size_t bytes) {
    for (int i = 0; i < BUCKETS; i++)
        for (atomic_place **at = &buckets[i]; *at;) {
            if ((uintptr_t)(*at)->memory - (uintptr_t)memory < bytes)
                forget(at);
            else
                at = &(*at)->next;
        }
}

void races_atomics_end(const vgpu_block *block) {
    for (int i = 0; i < BUCKETS; i++)
        for (atomic_place **at = &buckets[i]; *at;) {
            if ((*at)->owner == block->number)
                forget(at);
            else
                at = &(*at)->next;
        }
}

void races_fence(vgpu_lane *lane) {
    if (!races_on())
        return;
    races_lane *races = &lane->races;
    races_take_clock(races->seen, lane);
    races_drop(races->seen);
    races->seen = NULL;
    races_drop(races->fenced);
    races->fenced = races_now(lane);
}

static void learn(vgpu_lane *lane, races_clock *told, int order) {
    if (!told || order & RACES_STORE)
        return;
    if (order & RACES_ACQUIRE)
        races_take_clock(told, lane);
    else
        clock_add(&lane->races.seen, told);
}

static void tell(vgpu_lane *lane, races_clock **told, int order) {
    if (order & RACES_LOAD)
        return;
    if (order & RACES_STORE) {
        races_drop(*told);
        *told = NULL;
    }
    races_clock *tells =
        order & RACES_RELEASE ? races_now(lane) : races_share(lane->races.fenced);
    if (tells)
        clock_add(told, tells);
    races_drop(tells);
}

void races_atomic(vgpu_lane *lane, const void *memory, size_t bytes, int order) {
    if (!races_on())
        return;
    for (size_t word = 0; word < bytes; word += WORD) {
        atomic_place *place = place_at(lane, (const char *)memory + word);
        learn(lane, place->told, order);
        tell(lane, &place->told, order);
    }
}
