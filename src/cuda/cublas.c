/* cublas.c: cuBLAS, loaded at run time. */
#include "cuda/cublas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

/* Values of cuBLAS's own enums. */
enum { OP_N = 0, OP_T = 1, COMPUTE_32F = 68, GEMM_DEFAULT = -1 };
enum { R_32F = 0, R_16F = 2, R_16BF = 14 };

#define CUBLAS_CALLS(X)                                                                        \
    X(Create_v2, (void **handle))                                                              \
    X(Destroy_v2, (void *handle))                                                              \
    X(SetStream_v2, (void *handle, void *stream))                                              \
    X(SetWorkspace_v2, (void *handle, void *scratch, size_t bytes))                            \
    X(GemmBatchedEx, (void *handle, int op_a, int op_b, int m, int n, int k,                   \
                      const void *alpha, const void *a, int type_a, int lda, const void *b,    \
                      int type_b, int ldb, const void *beta, const void *c, int type_c,        \
                      int ldc, int count, int compute, int algorithm))

typedef struct calls {
#define X(name, parameters) int(*name) parameters;
    CUBLAS_CALLS(X)
#undef X
} calls;

struct att_cublas {
    att_cuda_device *device;
    void *handle;
    pthread_mutex_t lock; /* a handle has one stream and one scratch at a time */
    att_cublas *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static calls table;
static bool found;         /* under `lock` */
static att_cublas *opened; /* under `lock` */

static bool fill(void *library) {
    void *address;
#define X(name, parameters)                                                                    \
    address = dlsym(library, "cublas" #name);                                                  \
    if (!address)                                                                              \
        return false;                                                                          \
    *(void **)(&table.name) = address;
    CUBLAS_CALLS(X)
#undef X
    return true;
}

static bool try_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    if (fill(library))
        return true;
    dlclose(library);
    return false;
}

/* Under `lock`. */
static bool find_library(void) {
    static const char *const paths[] = {"libcublas.so.13",
                                        "libcublas.so.12",
                                        "libcublas.so",
                                        "/usr/local/cuda/lib64/libcublas.so.13",
                                        "/usr/local/cuda/lib64/libcublas.so.12",
                                        "/usr/local/cuda/lib64/libcublas.so"};
    if (found)
        return true;
    const char *chosen = secure_getenv("ATTEST_LIBCUBLAS");
    if (chosen && *chosen)
        return found = try_library(chosen);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && !found; i++)
        found = try_library(paths[i]);
    return found;
}

bool att_cublas_found(void) {
    pthread_mutex_lock(&lock);
    const bool here = find_library();
    pthread_mutex_unlock(&lock);
    return here;
}

static att_status check(int code, const char *call) {
    if (code == 0)
        return ATT_OK;
    return att_fail(ATT_E_CUDA, "", "%s failed with cuBLAS status %d", call, code);
}

/* Under `lock`. */
static att_status open_on(att_cublas **out, att_cuda_device *device) {
    ATT_REQUIRE(find_library(), ATT_E_UNSUPPORTED, "kernel", "cuBLAS is not found");
    att_cublas *cublas = att_alloc(sizeof *cublas);
    ATT_REQUIRE(cublas, ATT_E_MEMORY, "", "no memory for a cuBLAS handle");
    *cublas = (att_cublas){.device = device, .next = opened};
    att_status status = att_cuda_device_enter(device);
    if (status == ATT_OK) {
        status = check(table.Create_v2(&cublas->handle), "cublasCreate");
        att_cuda_device_leave(device);
    }
    if (status != ATT_OK) {
        att_free(cublas);
        return status;
    }
    pthread_mutex_init(&cublas->lock, NULL);
    *out = opened = cublas;
    return ATT_OK;
}

att_status att_cublas_open(att_cublas **out, att_cuda_device *device) {
    pthread_mutex_lock(&lock);
    *out = opened;
    while (*out && (*out)->device != device)
        *out = (*out)->next;
    const att_status status = *out ? ATT_OK : open_on(out, device);
    pthread_mutex_unlock(&lock);
    return status;
}

static int type_of(att_dtype dtype) {
    return dtype == ATT_F32 ? R_32F : dtype == ATT_F16 ? R_16F : R_16BF;
}

/* The handle's lock must be held. Setting the stream resets the scratch, so the scratch is set
 * afterwards. */
static att_status multiply(att_cublas *cublas, const att_cublas_product *p, void *scratch,
                           void *stream) {
    const float one = 1.0f, zero = 0.0f;
    const int type = type_of(p->dtype);
    ATT_TRY(check(table.SetStream_v2(cublas->handle, stream), "cublasSetStream"));
    ATT_TRY(check(table.SetWorkspace_v2(cublas->handle, scratch, ATT_CUBLAS_SCRATCH),
                  "cublasSetWorkspace"));
    return check(table.GemmBatchedEx(cublas->handle, p->transpose_a ? OP_T : OP_N, OP_N,
                                     p->rows, p->columns, p->inner, &one, p->a, type,
                                     p->pitch_a, p->b, type, p->pitch_b, &zero, p->c, R_32F,
                                     p->pitch_c, p->count, COMPUTE_32F, GEMM_DEFAULT),
                 "cublasGemmBatchedEx");
}

att_status att_cublas_multiply(att_cublas *cublas, const att_cublas_product *product,
                               void *scratch, void *stream) {
    ATT_TRY(att_cuda_device_enter(cublas->device));
    pthread_mutex_lock(&cublas->lock);
    const att_status status = multiply(cublas, product, scratch, stream);
    pthread_mutex_unlock(&cublas->lock);
    att_cuda_device_leave(cublas->device);
    return status;
}
