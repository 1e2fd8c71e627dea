/* function.h: a loaded kernel, as module.c makes it and launch.c uses it. */
#ifndef ATT_CUDA_FUNCTION_H
#define ATT_CUDA_FUNCTION_H

#include <pthread.h>
#include <stdbool.h>

#include "cuda/driver.h"
#include "cuda/module.h"

struct att_cuda_function {
    /* What was requested. */
    att_cuda_device *device;
    char *key; /* id, source, flags and defines: rows with the same key are the same code */
    size_t key_size;
    bool jit_only;

    /* What was loaded; constant once `ready`. */
    const att_cuda_driver *cu;
    CUlibrary library;
    CUkernel kernel;
    const char *name;    /* in the machine code */
    size_t params_bytes; /* of its one parameter; 0: unknown to the driver */
    att_cuda_code code;

    pthread_mutex_t lock;
    bool ready;              /* under `lock` */
    uint32_t shared_allowed; /* under `lock`: dynamic bytes per block */
    int users;               /* under the table's lock: calls that are using this function */
    struct att_cuda_function *next;
};

#endif
