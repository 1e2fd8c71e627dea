/* fake_backend.h: the GPU behind the driver of the tests: fake_backend.c, which records
 * launches or computes their problem on the host, or tests/virtual_gpu/virtual_backend.c, which
 * runs the kernels themselves. One of the two is linked in.
 *
 * Called with the driver's lock held. */
#ifndef ATT_FAKE_BACKEND_H
#define ATT_FAKE_BACKEND_H

#include <stdbool.h>

#include "cuda/driver.h"

/* Loaded code. */
typedef struct backend_code backend_code;

/* NULL: it is not code for this GPU. */
backend_code *backend_load(const void *image);
void backend_unload(backend_code *code);

/* Bytes of the one parameter of the kernel of that name. */
size_t backend_params_bytes(const backend_code *code, const char *kernel);

typedef struct backend_limits {
    int threads;      /* maximum per block */
    int registers;    /* per thread */
    int shared_bytes; /* static, per block */
} backend_limits;
backend_limits backend_limits_of(const backend_code *code, const char *kernel);

/* `cluster`: blocks per cluster, 1 if there are none. The launch may run now or later, but
 * before what follows it. */
void backend_launch(const backend_code *code, const char *kernel, const CUlaunchConfig *config,
                    int cluster, const void *params, size_t bytes);

/* Run what was launched. False: a launch failed, and every later call fails too. */
bool backend_finish(void);

/* Whether the device continues after a failed launch once the host knows. A GPU does not. */
bool backend_forgives(void);

/* Device memory. `written`: by the host, by a copy or a fill. */
void backend_memory_added(void *memory, size_t bytes);
void backend_memory_removed(void *memory);
void backend_memory_written(void *memory, size_t bytes);

/* Whether fake_clock_us advances by the duration of launches. */
bool backend_keeps_time(void);

int backend_multiprocessors(void);

/* The number of clusters of that many blocks that run at once. */
int backend_clusters(int blocks);

/* "Fake GPU"; and the text for every error. */
const char *backend_name(void);
const char *backend_error_text(void);

#endif
