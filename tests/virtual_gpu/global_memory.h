/* global_memory.h: device memory: what is allocated, and what is known of each of its places. */
#ifndef ATT_VGPU_GLOBAL_MEMORY_H
#define ATT_VGPU_GLOBAL_MEMORY_H

#include "tests/virtual_gpu/machine.h"

typedef enum global_access { GLOBAL_READ, GLOBAL_WRITE, GLOBAL_ATOMIC } global_access;

/* An access by `lane`: it must lie within one allocation; what is read was written; then races. */
void global_touch(vgpu_lane *lane, const void *memory, size_t bytes, global_access access,
                  const char *what);

/* The same for the copy engine: bounds now, the rest when it is waited for (races.h). */
void global_touch_async(vgpu_lane *lane, const void *memory, size_t bytes, global_access access,
                        const char *what);
void global_landed(vgpu_lane *lane, const void *memory, size_t bytes);

/* A place beside every 2 bytes of an allocation, zero at first, which races.c gives its meaning: `cell_bytes` each. NULL: no
 * allocation there. Calls with another size of cells fail. */
void *global_cells(const void *memory, size_t cell_bytes);

#endif
