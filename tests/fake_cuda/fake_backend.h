/* fake_backend.h: what stands for the GPU behind the driver of the tests: fake_backend.c, which records launches or computes their
 * problem on the host, or tests/virtual_gpu/virtual_backend.c, which runs the kernels themselves. One of both is linked to it.
 *
 * Called under the driver's lock. */
#ifndef ATT_FAKE_BACKEND_H
#define ATT_FAKE_BACKEND_H

#include <stdbool.h>

#include "cuda/driver.h"

/* Code that is loaded. */
typedef struct backend_code backend_code;

/* NULL: it is no code for this GPU. */
backend_code *backend_load(const void *image);
void backend_unload(backend_code *code);

/* Bytes of the one parameter of the kernel of that name. */
size_t backend_params_bytes(const backend_code *code, const char *kernel);

typedef struct backend_limits {
    int threads;      /* of a block, at most */
    int registers;    /* of a thread */
    int shared_bytes; /* of a block, static */
} backend_limits;
backend_limits backend_limits_of(const backend_code *code, const char *kernel);

/* `cluster`: blocks of one, 1 where there are none. It may run now or later, but before what comes after it. */
void backend_launch(const backend_code *code, const char *kernel, const CUlaunchConfig *config,
                    int cluster, const void *params, size_t bytes);

/* Run what was launched. False: some launch failed, and every call from now on does. */
bool backend_finish(void);

/* Does the device go on after a launch that failed, once the host knows? A GPU does not. */
bool backend_forgives(void);

/* Device memory. `written`: by the host, by a copy or a fill. */
void backend_memory_added(void *memory, size_t bytes);
void backend_memory_removed(void *memory);
void backend_memory_written(void *memory, size_t bytes);

/* Does fake_clock_us go on by what launches take? */
bool backend_keeps_time(void);

int backend_multiprocessors(void);

/* Clusters of that many blocks that run at once. */
int backend_clusters(int blocks);

/* "Fake GPU"; and what is said of every error. */
const char *backend_name(void);
const char *backend_error_text(void);

#endif
