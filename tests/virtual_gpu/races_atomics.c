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

enum { WORD = 4, BUCKETS_FIRST = 256 };
static struct {
    atomic_place **buckets; /* each 4 bytes that an atomic touched, by address */
    size_t size, count;     /* size: a power of two, at least count; 0: no buckets yet */
    size_t in_shared;       /* how many of them are a block's */
} places;

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

static atomic_place **bucket_of(const char *memory) {
    return &places.buckets[(uintptr_t)memory / WORD & (places.size - 1)];
}

static void add(atomic_place *place) {
    atomic_place **bucket = bucket_of(place->memory);
    place->next = *bucket;
    *bucket = place;
}

/* Gradients are summed by an atomic per element: a search must not become long. */
static void grow(void) {
    const size_t old_size = places.size;
    atomic_place **const old = places.buckets;
    places.size = old_size ? 2 * old_size : BUCKETS_FIRST;
    places.buckets = allocate(places.size * sizeof *places.buckets);
    for (size_t i = 0; i < places.size; i++)
        places.buckets[i] = NULL;
    for (size_t i = 0; i < old_size; i++)
        for (atomic_place *place = old[i], *next; place; place = next) {
            next = place->next;
            add(place);
        }
    free(old);
}

static atomic_place *place_at(const vgpu_lane *lane, const char *memory) {
    const long owner = owner_of(lane, memory);
    if (places.count == places.size)
        grow();
    for (atomic_place *place = *bucket_of(memory); place; place = place->next)
        if (place->memory == memory && place->owner == owner)
            return place;
    atomic_place *place = allocate(sizeof *place);
    *place = (atomic_place){.memory = memory, .owner = owner};
    add(place);
    places.count++;
    places.in_shared += owner != 0;
    return place;
}

static void forget(atomic_place **at) {
    atomic_place *place = *at;
    *at = place->next;
    places.count--;
    places.in_shared -= place->owner != 0;
    races_drop(place->told);
    free(place);
}

void races_atomics_forget(const void *memory, size_t bytes) {
    for (size_t i = 0; i < places.size; i++)
        for (atomic_place **at = &places.buckets[i]; *at;) {
            if ((uintptr_t)(*at)->memory - (uintptr_t)memory < bytes)
                forget(at);
            else
                at = &(*at)->next;
        }
}

void races_atomics_end(const vgpu_block *block) {
    for (size_t i = 0; places.in_shared > 0 && i < places.size; i++)
        for (atomic_place **at = &places.buckets[i]; *at;) {
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
