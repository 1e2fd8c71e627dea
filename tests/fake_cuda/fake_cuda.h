/* fake_cuda.h: how a test controls the fake driver and the fake compiler.
 *
 * Both are shared libraries that the library under test opens through the environment variables
 * ATTEST_LIBCUDA and ATTEST_LIBNVRTC. A test opens the same file and gets its state through the
 * name below. */
#ifndef ATT_FAKE_CUDA_H
#define ATT_FAKE_CUDA_H

#include <stdbool.h>

#include "cuda/driver.h"

enum { FAKE_DEVICES = 4, FAKE_PARAMS_MAX = 4096 };

typedef struct fake_cuda {
    /* Set by the test. */
    int version;           /* that the driver reports */
    int devices;           /* that it reports */
    int cc[FAKE_DEVICES];  /* compute capability of each */
    const char *missing;   /* entry point that this driver does not have; NULL: none */
    long fail_at;          /* the call with this number, from 1, fails; 0: none */
    int fail_code;         /* with this code */
    const char *fail_call; /* or every call of this name fails; NULL: none */
    int sticky;            /* code that every call returns, as after a fault; 0: none */
    int memory_type, memory_managed, memory_device; /* the reported properties of every
                                                     * address */
    int local_bytes, max_threads;                   /* of every kernel; max_threads 0: 256 */
    int cluster_most,
        cluster_slots; /* blocks of the largest cluster that fits, 0: 16; clusters at once, 0:
                        * an H200's */
    long busy_us; /* how long the device stays busy after the streams of a launch are done */
    size_t kernel_params; /* bytes of every kernel's parameter; 0: from the kernel's name */
    /* Replaces the kernel if a test wants results; called at the launch. */
    void (*run)(const char *kernel, const CUlaunchConfig *config, const void *params,
                size_t bytes);

    /* Reported by the driver. */
    long calls; /* since the test last set it to 0 */
    char failed_call[64];
    long libraries_loaded, libraries_live;
    long contexts_retained;
    long memory_live; /* allocations */
    long streams_live, events_live, graphs_live;
    long launches;
    CUlaunchConfig config; /* of the last launch */
    int attribute;         /* its first launch attribute; -1: none */
    int cluster;           /* blocks of its clusters */
    char kernel[128];
    size_t params_bytes;
    _Alignas(64) unsigned char params[FAKE_PARAMS_MAX];
    int shared_allowed; /* the last value set */
    bool busy;          /* something was launched since the last wait for the device */
} fake_cuda;

typedef struct fake_nvrtc {
    long fail_at;    /* the call with this number, from 1, fails; 0: none */
    const char *log; /* compilation fails with this log; NULL: it succeeds */
    long calls, programs_live, compiled;
    int headers;        /* given to the last program */
    char options[4096]; /* of the last compilation, separated by spaces */
    char source[256];   /* the beginning of its text */
} fake_nvrtc;

/* dlsym(library, "fake_cuda_state"), dlsym(library, "fake_nvrtc_state"): functions that return
 * the state. */
typedef fake_cuda *(*fake_cuda_state_function)(void);
typedef fake_nvrtc *(*fake_nvrtc_state_function)(void);

#endif
