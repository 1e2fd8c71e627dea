/* driver.c: opens libcuda.so.1, fills the table of its entry points, and names its errors. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

typedef CUresult (*get_proc_address)(const char *symbol, void **address, int version,
                                     unsigned long long flags, int *found);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static att_cuda_driver table;
static bool ready;                      /* under `lock` */
static _Thread_local char failure[200]; /* what `why` points to */

/* ISO C does not convert object pointers to function pointers; POSIX allows it this way. */
#define SET_FUNCTION(function, object) (*(void **)(&(function)) = (object))

static bool find(get_proc_address get, const char *symbol, int version, void **out) {
    enum { LEGACY_STREAM = 1 }; /* NULL streams are the legacy default stream */
    *out = NULL;
    int found = 0;
    return get(symbol, out, version, LEGACY_STREAM, &found) == CUDA_SUCCESS && *out;
}

/* The first entry point that the driver lacks, or NULL. */
static const char *fill(att_cuda_driver *cu, get_proc_address get) {
    void *address;
#define X(name, since, parameters)                                                             \
    if (!find(get, "cu" #name, since, &address))                                               \
        return "cu" #name;                                                                     \
    SET_FUNCTION(cu->name, address);
    ATT_CUDA_CALLS(X)
#undef X
#define X(name, since, parameters)                                                             \
    if (find(get, "cu" #name, since, &address))                                                \
        SET_FUNCTION(cu->name, address);
    ATT_CUDA_CALLS_OPTIONAL(X)
#undef X
    return NULL;
}

static bool load(att_cuda_driver *cu, void *library) {
    get_proc_address get;
    SET_FUNCTION(get, dlsym(library, "cuGetProcAddress_v2"));
    if (!get) { /* introduced with the library calls in 12.0 */
        snprintf(
            failure, sizeof failure,
            "the NVIDIA driver is older than CUDA 12.0 (driver 525), the oldest supported");
        return false;
    }
    const char *missing = fill(cu, get);
    if (missing) {
        snprintf(failure, sizeof failure, "the NVIDIA driver has no %s: update it", missing);
        return false;
    }
    CUresult code = cu->DriverGetVersion(&cu->version);
    if (code == CUDA_SUCCESS)
        code = cu->Init(0);
    if (code == CUDA_ERROR_NO_DEVICE) {
        snprintf(failure, sizeof failure, "the NVIDIA driver finds no GPU");
        return false;
    }
    if (code != CUDA_SUCCESS) {
        const char *name = NULL;
        cu->GetErrorName(code, &name);
        snprintf(failure, sizeof failure,
                 "the NVIDIA driver does not start: cuInit gives %s (%d)",
                 name ? name : "an unknown code", code);
        return false;
    }
    return true;
}

/* The library stays open even after a failure: it may have started threads, and opening it
 * again is free. */
static bool open_driver(att_cuda_driver *cu) {
    const char *path = secure_getenv("ATTEST_LIBCUDA");
    if (!path || !*path)
        path = "libcuda.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(failure, sizeof failure, "no NVIDIA driver: %s", dlerror());
        return false;
    }
    *cu = (att_cuda_driver){0};
    return load(cu, library);
}

const att_cuda_driver *att_cuda_driver_get(const char **why) {
    pthread_mutex_lock(&lock);
    if (!ready)
        ready = open_driver(&table);
    const bool found = ready;
    pthread_mutex_unlock(&lock);
    if (why)
        *why = found ? "" : failure;
    return found ? &table : NULL;
}

/* After these errors the context returns the same code for every call until the process
 * ends. */
static bool is_sticky(CUresult code) {
    switch (code) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

att_status att_cuda_check(const att_cuda_driver *cu, CUresult code, const char *call,
                          const char *kernel) {
    if (code == CUDA_SUCCESS)
        return ATT_OK;
    const char *name = NULL, *text = NULL;
    cu->GetErrorName(code, &name);
    cu->GetErrorString(code, &text);
    const char *lost = is_sticky(code)
                           ? "; the GPU's context is lost to this or an earlier fault in it, "
                             "and only a new process gets a new one"
                           : "";
    const att_status status = code == CUDA_ERROR_OUT_OF_MEMORY ? ATT_E_MEMORY : ATT_E_CUDA;
    att_fail(status, "", "%s%s%s gives %s (%d): %s%s", call, kernel ? " for " : "",
             kernel ? kernel : "", name ? name : "an unknown code", code,
             text ? text : "no text", lost);
    att_error_cuda_code(code);
    return status;
}
