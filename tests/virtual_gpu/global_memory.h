/* global_memory.h: device memory: what is allocated, and what is known of each of its places. virtual_gpu.h has what the driver calls. */
#ifndef ATT_VGPU_GLOBAL_MEMORY_H
#define ATT_VGPU_GLOBAL_MEMORY_H

#include "tests/virtual_gpu/lanes.h"

typedef enum global_access { GLOBAL_READ, GLOBAL_WRITE, GLOBAL_ATOMIC } global_access;

/* An access by `lane`: it must lie within one allocation; what is read was written; then races. */
void global_touch(vgpu_lane *lane, const void *memory, size_t bytes, global_access access,
                  const char *what);

/* The same for the copy engine. What it writes or reduces nobody may touch before global_landed() by the lane that waited for it,
 * or the end of the launch; what it reads is as if the lane read it. */
void global_touch_async(vgpu_lane *lane, const void *memory, size_t bytes, global_access access,
                        const char *what);
void global_landed(vgpu_lane *lane, const void *memory, size_t bytes);

/* Is it within some allocation? */
bool global_contains(const void *memory);

/* For races.c: what is known of the allocation, and where in it the address is. NULL: no allocation, or races are not looked for. */
struct races_memory *global_races(const void *memory, size_t *offset);

#endif
