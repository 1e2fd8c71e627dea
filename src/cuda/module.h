/* module.h: from a registry row to machine code on a device: embedded, or compiled now and
 * cached. */
#ifndef ATT_CUDA_MODULE_H
#define ATT_CUDA_MODULE_H

#include "cuda/device.h"
#include "cuda/row.h"

typedef enum att_cuda_origin {
    ATT_ORIGIN_NONE,     /* neither embedded for this GPU nor compilable here */
    ATT_ORIGIN_EMBEDDED, /* a cubin in the library */
    ATT_ORIGIN_PTX,      /* PTX in the library, compiled by the driver */
    ATT_ORIGIN_JIT       /* compiled by NVRTC, or taken from its cache */
} att_cuda_origin;

/* What was loaded. */
typedef struct att_cuda_code {
    att_cuda_origin origin;
    char sha256[65];  /* of the bytes given to the driver */
    int registers;    /* per thread */
    int local_bytes;  /* per thread: stack and spills */
    int shared_bytes; /* static, per block */
    int max_threads;
} att_cuda_code;

/* How code may be obtained. */
typedef struct att_cuda_source {
    const char *cache_dir; /* compiled kernels; NULL: the user's cache folder; "": no cache */
    int jit_only;          /* 1: compile even embedded kernels (ATTEST_JIT=1) */
    const char *
        defines; /* extra "-DUSE_X=0 -DUSE_Y=0" for the compiler; "", NULL: none; implies jit */
} att_cuda_source;

typedef struct att_cuda_function att_cuda_function;

/* Load `kernel` on `device`, once: requesting the same row again returns the same function. It
 * lives as long as the process. Thread: safe. Errors: ATT_E_UNSUPPORTED, ATT_E_CUDA,
 * ATT_E_MEMORY. */
att_status att_cuda_function_load(const att_cuda_function **out, att_cuda_device *device,
                                  const att_cuda_kernel *kernel, const att_cuda_source *source);

const att_cuda_code *att_cuda_function_code(const att_cuda_function *function);

/* Where the code of `kernel` would come from on a GPU of compute capability `cc`. Loads
 * nothing. */
att_cuda_origin att_cuda_origin_of(const att_cuda_kernel *kernel, int cc);

#endif
