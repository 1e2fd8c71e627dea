/* memory_place.c: resolves an address of an instruction, or a pointer of C code, to shared or
 * to global memory. */
#include "tests/virtual_gpu/memory_place.h"

#include "tests/virtual_gpu/global_memory.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/shared_memory.h"

static bool is_in(const char *pointer, const char *begin, size_t bytes) {
    return (uintptr_t)pointer >= (uintptr_t)begin &&
           (uintptr_t)pointer - (uintptr_t)begin < bytes;
}

/* Whether it is in the shared memory of the lane's cluster. */
static bool is_shared(const vgpu_lane *lane, const char *pointer) {
    const vgpu_cluster *cluster = lane->block->cluster;
    const vgpu_entry_point *entry = cluster->grid->entry;
    if (is_in(pointer, entry->static_begin, (size_t)(entry->static_end - entry->static_begin)))
        return true;
    for (int b = 0; b < cluster->count; b++)
        if (is_in(pointer, cluster->blocks[b].memory, cluster->blocks[b].bytes))
            return true;
    return false;
}

static memory_place touch_shared(vgpu_lane *lane, unsigned address, unsigned bytes,
                                 memory_access access, const char *what) {
    static const shared_access accesses[] = {SHARED_READ, SHARED_WRITE, SHARED_ATOMIC,
                                             SHARED_READ};
    char *memory = shared_at(address, bytes, bytes, what);
    shared_touch(lane, address, bytes, accesses[access], what);
    return (memory_place){memory, true};
}

static memory_place touch_global(vgpu_lane *lane, char *memory, unsigned bytes,
                                 memory_access access, const char *what) {
    static const global_access accesses[] = {GLOBAL_READ, GLOBAL_WRITE, GLOBAL_ATOMIC,
                                             GLOBAL_ATOMIC};
    if ((uintptr_t)memory % bytes != 0)
        vgpu_fail(CHECK_ALIGNMENT, "%s: global address %p is not a multiple of %u", what,
                  (void *)memory, bytes);
    global_touch(lane, memory, bytes, accesses[access], what);
    return (memory_place){memory, false};
}

memory_place memory_touch(vgpu_lane *lane, memory_space space, uint64_t address, unsigned bytes,
                          memory_access access, const char *what) {
    char *pointer = ptx_pointer(address);
    if (space == SPACE_GENERIC && is_shared(lane, pointer))
        return touch_shared(lane, vgpu_to_shared(pointer), bytes, access, what);
    if (space == SPACE_GENERIC || space == SPACE_GLOBAL)
        return touch_global(lane, pointer, bytes, access, what);
    if (space != SPACE_SHARED_CLUSTER &&
        (unsigned)address >> SHARED_WINDOW_BITS != (unsigned)lane->block->rank)
        vgpu_fail(CHECK_BOUNDS, "%s: 0x%x is in the shared memory of another block", what,
                  (unsigned)address);
    return touch_shared(lane, (unsigned)address, bytes, access, what);
}
