/* virtual_gpu.h: the virtual GPU as the driver uses it.
 *
 * Thread: one at a time; the driver has a lock. */
#ifndef ATT_VIRTUAL_GPU_H
#define ATT_VIRTUAL_GPU_H

#include <stdbool.h>
#include <stddef.h>

typedef struct vgpu_code vgpu_code;

/* Code begins with these bytes and its length, 8 bytes; then comes a shared object. */
#define VGPU_MAGIC "vgpucode"
enum { VGPU_HEADER = 16 };

/* Whether it is code of the virtual GPU. */
bool vgpu_is_code(const void *image);
vgpu_code *vgpu_load(const void *image); /* NULL: it does not load; stderr says why */
void vgpu_unload(vgpu_code *code);
size_t vgpu_params_bytes(const vgpu_code *code);
size_t
vgpu_static_bytes(const vgpu_code *code); /* shared memory of a block, besides the dynamic
                                           * part */

typedef struct vgpu_launch {
    const vgpu_code *code;
    const char *name; /* of the kernel; copied */
    unsigned grid[3], threads, dynamic_bytes;
    unsigned cluster;   /* blocks, along y */
    bool programmatic;  /* may start before the previous launch has ended */
    const void *params; /* copied */
} vgpu_launch;

/* Launches are queued; they run when the host waits or accesses memory. */
void vgpu_enqueue(const vgpu_launch *launch);

/* Run the queue. False: a check failed; stderr has the report, and nothing runs until
 * vgpu_reset(). */
bool vgpu_finish(void);
void vgpu_reset(void);

/* The number of multiprocessors it reports: ATTEST_VIRTUAL_SMS, or 2. */
int vgpu_multiprocessors(void);

/* Device memory; kernels touch nothing else. vgpu_memory_written: the host has filled it. */
void vgpu_memory_add(void *memory, size_t bytes);
void vgpu_memory_remove(void *memory);
void vgpu_memory_written(void *memory, size_t bytes);

#endif
