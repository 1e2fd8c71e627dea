/* shared_memory.c: shared memory by address, and the state of each of its places. */
#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/shared_memory.h"

#include <stdlib.h>
#include <string.h>

#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"

enum {
    CELL = 4,       /* bytes per vgpu_cell */
    SYSTEM = 1024,  /* bytes at the start of the window that are reserved for the system */
    SWIZZLE = 1024, /* bytes after which patterns of addresses repeat */
    DYNAMIC_UNIT = 128,
    WINDOW = 1 << SHARED_WINDOW_BITS
};

static vgpu_cluster *cluster_now; /* while no lane runs */

void shared_for(const vgpu_block *block) {
    cluster_now = block->cluster;
}

static vgpu_cluster *running_cluster(void) {
    const vgpu_lane *lane = vgpu_lane_now();
    return lane ? lane->block->cluster : cluster_now;
}

vgpu_block *shared_block(unsigned address) {
    const vgpu_cluster *cluster = running_cluster();
    const unsigned rank = address >> SHARED_WINDOW_BITS;
    if (rank >= (unsigned)cluster->count)
        vgpu_fail(CHECK_BOUNDS,
                  "0x%x is not an address of shared memory: the cluster has %d blocks", address,
                  cluster->count);
    return &cluster->blocks[rank];
}

static unsigned offset_of(const vgpu_block *block, unsigned address) {
    return (address & (WINDOW - 1)) - block->base;
}

static const vgpu_entry_point *entry_of(const vgpu_block *block) {
    return block->cluster->grid->entry;
}

static unsigned static_bytes(const vgpu_entry_point *entry) {
    return (unsigned)(entry->static_end - entry->static_begin);
}

/* The host address for an offset in the block: static shared memory is the kernel's own
 * section. */
static char *place_of(const vgpu_block *block, unsigned offset) {
    return offset < static_bytes(entry_of(block)) ? entry_of(block)->static_begin + offset
                                                  : block->memory + offset;
}

static unsigned check_range(const vgpu_block *block, unsigned address, unsigned bytes,
                            const char *what) {
    const unsigned offset = offset_of(block, address);
    if (offset > block->bytes || bytes > block->bytes - offset)
        vgpu_fail(CHECK_BOUNDS, "%s: %u bytes at %+d of shared memory, which has %u", what,
                  bytes, (int)offset, block->bytes);
    return offset;
}

char *shared_at(unsigned address, unsigned bytes, unsigned align, const char *what) {
    const vgpu_block *block = shared_block(address);
    const unsigned offset = check_range(block, address, bytes, what);
    if (address % align != 0)
        vgpu_fail(CHECK_ALIGNMENT, "%s: shared address 0x%x (+%u) is not a multiple of %u",
                  what, address, offset, align);
    return place_of(block, offset);
}

static uint8_t bytes_within(unsigned cell, unsigned offset, unsigned bytes) {
    const unsigned first = offset > cell * CELL ? offset - cell * CELL : 0;
    const unsigned end =
        offset + bytes < (cell + 1) * CELL ? offset + bytes - cell * CELL : CELL;
    return (uint8_t)(((1u << end) - 1) & ~((1u << first) - 1));
}

static bool is_fenced(const vgpu_lane *lane, const vgpu_block *block, const vgpu_cell *cell) {
    if (cell->writer == WRITER_LANDED)
        return (uint16_t)(lane->landings - cell->fences) <= UINT16_MAX / 2;
    return cell->writer == 0 || block->lanes[cell->writer - 1].fences != cell->fences;
}

static void check_cell(const vgpu_lane *lane, const vgpu_block *block, const vgpu_cell *cell,
                       unsigned offset, uint8_t touched, shared_access access,
                       const char *what) {
    const bool writes = access == SHARED_WRITE || access == SHARED_ATOMIC;
    if (cell->in_flight)
        vgpu_fail(CHECK_IN_FLIGHT, "%s %s shared memory +%u, which a copy is still writing",
                  what, writes ? "writes" : "reads", offset);
    if (writes && cell->sources)
        vgpu_fail(CHECK_SOURCE,
                  "%s writes shared memory +%u, which a copy or a product is still reading",
                  what, offset);
    /* Threads may read unwritten bytes if they do not use them: rows of a tile that the
     * problem does not have. They hold garbage, which shows in the results of kernels that do
     * use them. */
    if ((access == SHARED_ASYNC_READ || access == SHARED_ATOMIC) &&
        (cell->written & touched) != touched)
        vgpu_fail(CHECK_UNINITIALISED, "%s reads shared memory +%u, which was never written",
                  what, offset);
    const bool fenced = access != SHARED_ASYNC_READ || is_fenced(lane, block, cell);
    if (!fenced && cell->writer == WRITER_LANDED)
        vgpu_fail(CHECK_PROXY,
                  "%s reads shared memory +%u, which a cp.async wrote, without "
                  "fence.proxy.async after its arrival",
                  what, offset);
    if (!fenced)
        vgpu_fail(CHECK_PROXY,
                  "%s reads shared memory +%u, which thread %d wrote without "
                  "fence.proxy.async after it",
                  what, offset, cell->writer - 1);
}

static void touch_cells(vgpu_lane *lane, vgpu_block *block, unsigned offset, unsigned bytes,
                        shared_access access, const char *what) {
    const bool writes = access == SHARED_WRITE || access == SHARED_ATOMIC;
    for (unsigned c = offset / CELL; c <= (offset + bytes - 1) / CELL; c++) {
        vgpu_cell *cell = &block->cells[c];
        const uint8_t touched = bytes_within(c, offset, bytes);
        check_cell(lane, block, cell, c * CELL, touched, access, what);
        if (!writes)
            continue;
        cell->written |= touched;
        cell->writer = lane->block == block ? (uint16_t)(lane->number + 1) : 0;
        cell->fences = lane->fences;
    }
    races_shared(lane, block, offset, bytes,
                 access == SHARED_ATOMIC ? RACES_ATOMIC
                 : writes                ? RACES_WRITE
                                         : RACES_READ,
                 what);
}

void shared_touch(vgpu_lane *lane, unsigned address, unsigned bytes, shared_access access,
                  const char *what) {
    vgpu_block *block = shared_block(address);
    touch_cells(lane, block, check_range(block, address, bytes, what), bytes, access, what);
}

/* The block and offset of a host address in the cluster; false: it is in none. */
static bool find_place(vgpu_block *own, const char *place, vgpu_block **block,
                       unsigned *offset) {
    const vgpu_entry_point *entry = entry_of(own);
    if (place >= entry->static_begin && place < entry->static_end) {
        *block = own;
        *offset = (unsigned)(place - entry->static_begin);
        return true;
    }
    for (int b = 0; b < own->cluster->count; b++) {
        vgpu_block *other = &own->cluster->blocks[b];
        if (place < other->memory || place > other->memory + other->bytes)
            continue;
        *block = other;
        *offset = (unsigned)(place - other->memory);
        return true;
    }
    return false;
}

void shared_touch_memory(vgpu_lane *lane, const void *memory, unsigned bytes,
                         shared_access access) {
    vgpu_block *block;
    unsigned offset;
    if (!find_place(lane->block, memory, &block, &offset))
        vgpu_fail(CHECK_BOUNDS, "%p is not in shared memory", memory);
    if (offset + bytes > block->bytes)
        vgpu_fail(CHECK_BOUNDS, "C code: %u bytes at +%u of shared memory, which has %u", bytes,
                  offset, block->bytes);
    touch_cells(lane, block, offset, bytes, access, "C code");
}

void shared_in_flight(vgpu_async *async, unsigned address, unsigned bytes) {
    vgpu_block *block = shared_block(address);
    const unsigned offset = check_range(block, address, bytes, "a copy");
    for (unsigned c = offset / CELL; c < (offset + bytes + CELL - 1) / CELL; c++) {
        vgpu_cell *cell = &block->cells[c];
        if (cell->in_flight)
            vgpu_fail(CHECK_IN_FLIGHT, "two copies write shared memory +%u at once", c * CELL);
        if (cell->sources)
            vgpu_fail(
                CHECK_SOURCE,
                "a copy would write shared memory +%u, which another copy or a product is "
                "still reading",
                c * CELL);
        cell->in_flight++;
        cell->writer = 0;
    }
    races_shared(vgpu_lane_now(), block, offset, bytes, RACES_WRITE, "a copy");
    fill_garbage(place_of(block, offset), bytes);
    async->writes = (vgpu_range){address, bytes};
}

void shared_landed(const vgpu_async *async) {
    vgpu_block *block = shared_block(async->writes.address);
    const unsigned offset = offset_of(block, async->writes.address);
    for (unsigned c = offset / CELL; c < (offset + async->writes.bytes + CELL - 1) / CELL;
         c++) {
        block->cells[c].in_flight--;
        block->cells[c].written |= bytes_within(c, offset, async->writes.bytes);
    }
}

static void count_readers(unsigned address, unsigned bytes, int more) {
    vgpu_block *block = shared_block(address);
    const unsigned offset = check_range(block, address, bytes, "a source");
    for (unsigned c = offset / CELL; c <= (offset + bytes - 1) / CELL; c++)
        block->cells[c].sources = (uint16_t)(block->cells[c].sources + more);
}

void shared_hold(unsigned address, unsigned bytes) {
    count_readers(address, bytes, 1);
}

void shared_release(unsigned address, unsigned bytes) {
    count_readers(address, bytes, -1);
}

void shared_fence(vgpu_lane *lane) {
    lane->fences++;
    lane->landings = lane->block->landings;
}

void shared_announced(unsigned address, unsigned bytes) {
    vgpu_block *block = shared_block(address);
    const unsigned offset = check_range(block, address, bytes, "cp.async");
    for (unsigned c = offset / CELL; c < (offset + bytes) / CELL; c++) {
        block->cells[c].writer = WRITER_LANDED;
        block->cells[c].fences = block->landings;
    }
}

void fill_garbage(void *memory, size_t bytes) {
    enum { BASE = 0x4280, STEP = 37, SPREAD = 0x7f };
    unsigned char *out = memory;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned bits = BASE + (unsigned)(i / 2 * STEP & SPREAD);
        out[i] = (unsigned char)(i % 2 ? bits >> 8 : bits);
    }
}

void *vgpu_dynamic_shared(void) {
    const vgpu_block *block = vgpu_lane_now()->block;
    return block->memory + block->dynamic_at;
}

void *vgpu_from_shared(unsigned address) {
    return shared_at(address, 1, 1, "a pointer to shared memory");
}

unsigned vgpu_to_shared(const void *pointer) {
    vgpu_block *block;
    unsigned offset;
    if (!find_place(vgpu_lane_now()->block, pointer, &block, &offset))
        vgpu_fail(CHECK_BOUNDS, "%p is not in shared memory", pointer);
    return ((unsigned)block->rank << SHARED_WINDOW_BITS) + block->base + offset;
}

/* The alignment of dynamic shared memory: what the kernel declares, and no more than
 * necessary. */
static unsigned dynamic_unit(const vgpu_entry_point *entry) {
    unsigned unit = DYNAMIC_UNIT;
    for (const unsigned *align = entry->aligns_begin; align < entry->aligns_end; align++)
        unit = *align > unit ? *align : unit;
    return unit < SWIZZLE ? unit : SWIZZLE;
}

unsigned shared_draw_base(const vgpu_entry_point *entry) {
    const unsigned unit = dynamic_unit(entry);
    return SYSTEM + random_below(SWIZZLE / unit) * unit;
}

/* A host address and its shared address are equal modulo 1024. */
void shared_make(vgpu_block *block, const vgpu_entry_point *entry, unsigned dynamic_bytes) {
    const unsigned unit = dynamic_unit(entry);
    const unsigned fixed = (static_bytes(entry) + unit - 1) / unit * unit;
    block->base = block->cluster->shared_base;
    block->dynamic_at = fixed;
    block->bytes = fixed + dynamic_bytes;
    block->allocation = allocate_aligned(SWIZZLE, block->bytes + 2 * SWIZZLE);
    block->cells = allocate_zeroed(block->bytes / CELL + 2, sizeof *block->cells);
    block->memory = block->allocation + block->base % SWIZZLE;
    for (unsigned c = 0; !entry->is_watched && c < block->bytes / CELL + 2; c++)
        block->cells[c].written = (1 << CELL) - 1; /* nothing reports what C code writes */
    fill_garbage(block->memory, block->bytes);
    fill_garbage(entry->static_begin, static_bytes(entry));
}

void shared_block_ended(const vgpu_block *block) {
    for (unsigned c = 0; c < block->bytes / CELL; c++)
        if (block->cells[c].sources)
            vgpu_fail(
                CHECK_LIFETIME,
                "a block ends while a copy or a product still reads its shared memory +%u",
                c * CELL);
}

void shared_free(vgpu_block *block) {
    free(block->allocation);
    free(block->cells);
    block->allocation = NULL;
    block->cells = NULL;
}
