/* global_memory.h: device memory: its allocations, and the state of each of its places.
 * virtual_gpu.h has the functions for the driver. */
#ifndef ATT_VGPU_GLOBAL_MEMORY_H
#define ATT_VGPU_GLOBAL_MEMORY_H

#include "tests/virtual_gpu/lanes.h"

typedef enum global_access { GLOBAL_READ, GLOBAL_WRITE, GLOBAL_ATOMIC } global_access;

/* An access by `lane`: it must be within one allocation, and read only written bytes; then
 * races are checked. */
void global_touch(vgpu_lane *lane, const void *memory, size_t bytes, global_access access,
                  const char *what);

/* The same for the copy engine. Nobody may touch what it writes or reduces before
 * global_landed() by the lane that waited for it, or the end of the launch; what it reads
 * counts as read by the lane. */
void global_touch_async(vgpu_lane *lane, const void *memory, size_t bytes, global_access access,
                        const char *what);
void global_landed(vgpu_lane *lane, const void *memory, size_t bytes);

/* Whether it is within some allocation. */
bool global_contains(const void *memory);

/* For races.c: the state of the allocation, and the offset of the address in it. NULL: no
 * allocation, or races are not checked. */
struct races_memory *global_races(const void *memory, size_t *offset);

#endif
