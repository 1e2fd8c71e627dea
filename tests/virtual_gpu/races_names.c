/* races_names.c: source locations and blocks as small numbers, which fit beside every 2 bytes
 * of memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/races_memory.h"

/* Names are copied: a kernel's own are gone when it is unloaded. */
enum { PLACES_MAX = UINT16_MAX, BUCKETS = 1 << 17 };
static vgpu_place places[PLACES_MAX + 1];
static uint16_t buckets[BUCKETS];
static unsigned places_count;

static const char *file_copied(const char *file) {
    static char *files[256];
    static int count;
    for (int i = 0; i < count; i++)
        if (!strcmp(files[i], file))
            return files[i];
    const size_t bytes = strlen(file) + 1;
    char *copy = memcpy(allocate(bytes), file, bytes);
    if (count < 256)
        files[count++] = copy;
    return copy;
}

static uint16_t find_place(vgpu_place place) {
    uint32_t hash = (uint32_t)place.line;
    for (const char *c = place.file; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    size_t at = hash % BUCKETS;
    while (buckets[at]) {
        const vgpu_place *known = &places[buckets[at]];
        if (known->line == place.line && !strcmp(known->file, place.file))
            return buckets[at];
        at = (at + 1) % BUCKETS;
    }
    if (places_count == PLACES_MAX)
        return 0;
    places[++places_count] = (vgpu_place){file_copied(place.file), place.line};
    return buckets[at] = (uint16_t)places_count;
}

/* Locations of this launch by the address of their file's name: lanes visit the same few
 * repeatedly. */
enum { RECENT = 1024 };
static struct {
    vgpu_place place;
    uint16_t number;
} recent[RECENT];

uint16_t races_place_number(vgpu_place place) {
    if (!place.file)
        return 0;
    const size_t at = ((uintptr_t)place.file / 16 * 61 + (size_t)place.line) % RECENT;
    if (recent[at].place.file != place.file || recent[at].place.line != place.line) {
        recent[at].place = place;
        recent[at].number = find_place(place);
    }
    return recent[at].number;
}

vgpu_place races_place_of(uint16_t number) {
    return number ? places[number] : (vgpu_place){"an unknown place", 0};
}

typedef struct block_name {
    uint32_t launch;
    vgpu_dim3 id;
} block_name;
static block_name *blocks; /* by number */
static size_t blocks_room;

void races_block_named(const vgpu_block *block) {
    static long launch;
    const size_t number = (size_t)block->number;
    if (launch !=
        block->cluster->grid->number) { /* its kernel's names may be at addresses of earlier
                                         * ones */
        launch = block->cluster->grid->number;
        memset(recent, 0, sizeof recent);
    }
    if (number >= blocks_room) {
        const size_t room = number * 2 + 64;
        blocks = allocate_grown(blocks, room * sizeof *blocks);
        memset(blocks + blocks_room, 0, (room - blocks_room) * sizeof *blocks);
        blocks_room = room;
    }
    blocks[number] = (block_name){(uint32_t)block->cluster->grid->number, block->id};
}

uint32_t races_launch_of(uint32_t block) {
    return blocks[block].launch;
}

vgpu_dim3 races_id_of(uint32_t block) {
    return blocks[block].id;
}
