/* fake_driver.h: what the files of the fake driver share. */
#ifndef ATT_FAKE_DRIVER_H
#define ATT_FAKE_DRIVER_H

#include <pthread.h>
#include <stdbool.h>

#include "tests/fake_cuda/fake_backend.h"
#include "tests/fake_cuda/fake_cuda.h"

extern pthread_mutex_t fake_lock;
extern fake_cuda fake_state;
extern double fake_clock_us; /* of a GPU that computes (fake_kernel.h) */

/* Count the call and return its result. */
CUresult fake_enter(const char *call);

#define ENTER(call)                                                                            \
    do {                                                                                       \
        const CUresult planned = fake_enter(call);                                             \
        if (planned != CUDA_SUCCESS)                                                           \
            return planned;                                                                    \
    } while (0)

void fake_add(long *counter, long n);

/* Whether it is one of the devices. */
bool fake_is_device(CUdevice device);

/* Contexts that the calling thread has pushed. */
bool fake_has_context(void);

/* With `fake_lock` held: run what the GPU was given. Returns what went wrong, now or before, or
 * CUDA_SUCCESS. */
CUresult fake_run_launches(void);

/* With `fake_lock` held: do the deferred fill (fake_memory.c). */
void fake_fill_late(void);

/* Both: the host waits. */
CUresult fake_finish(void);

/* The same for a host that sees the result: an earlier error is cleared if the GPU forgives
 * (fake_backend.h). */
CUresult fake_wait(void);

struct CUkern_st {
    char name[128];
    int large_clusters; /* more than 8 blocks are allowed */
    CUlibrary library;
    struct CUkern_st *next;
};
struct CUlib_st {
    struct CUkern_st *kernels;
    backend_code *code;
};

enum { FAKE_ATTRIBUTES_MAX = 4 };

/* Work on a stream: a kernel, a copy or a fill. A graph keeps these and repeats them. */
typedef struct fake_node {
    int type; /* CU_GRAPH_NODE_TYPE_* */
    CUdeviceptr to, from;
    size_t pitch, width, height; /* of a fill; for a copy, height is its bytes */
    unsigned char value;
    CUkernel kernel;
    void (*host)(const void *params); /* replaces a kernel; NULL: none */
    CUlaunchConfig config;
    CUlaunchAttribute
        attributes[FAKE_ATTRIBUTES_MAX]; /* the caller's are gone when the graph is replayed */
    int cluster;
    _Alignas(64) unsigned char params[FAKE_PARAMS_MAX];
    size_t bytes;
    struct fake_node *next;
} fake_node;

/* Do the work, and record it if the stream is being captured. */
CUresult fake_stream_take(const fake_node *node, CUstream stream);

#define X(name, since, parameters) CUresult fake_##name parameters;
ATT_CUDA_CALLS(X)
ATT_CUDA_CALLS_OPTIONAL(X)
#undef X

#endif
