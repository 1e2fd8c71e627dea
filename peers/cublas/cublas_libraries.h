/* cublas_libraries.h: the driver and cuBLAS, opened at run time by the plug-in itself. */
#ifndef PEER_CUBLAS_LIBRARIES_H
#define PEER_CUBLAS_LIBRARIES_H

#include <stddef.h>

/* The parts of CUDA's own headers that are used here. */
typedef struct peer_launch {
    unsigned grid[3], block[3];
    unsigned shared;
    void *stream;
    void *attributes;
    unsigned attribute_count;
} peer_launch;

#define PEER_DRIVER_CALLS(X)                                                                   \
    X(LibraryLoadData,                                                                         \
      (void **library, const void *code, int *, void **, unsigned, int *, void **, unsigned))  \
    X(LibraryUnload, (void *library))                                                          \
    X(LibraryGetKernel, (void **kernel, void *library, const char *name))                      \
    X(KernelGetFunction, (void **function, void *kernel))                                      \
    X(LaunchKernelEx, (const peer_launch *launch, void *function, void **params, void **))

#define PEER_CUBLAS_CALLS(X)                                                                   \
    X(Create_v2, (void **handle))                                                              \
    X(Destroy_v2, (void *handle))                                                              \
    X(SetStream_v2, (void *handle, void *stream))                                              \
    X(SetWorkspace_v2, (void *handle, void *scratch, size_t bytes))                            \
    X(GemmBatchedEx,                                                                           \
      (void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,               \
       const void *a, int type_a, int lda, const void *b, int type_b, int ldb,                 \
       const void *beta, void *c, int type_c, int ldc, int count, int compute, int algorithm))

typedef struct peer_libraries {
    struct {
#define X(name, parameters) int(*name) parameters;
        PEER_DRIVER_CALLS(X)
    } cu;
    struct {
        PEER_CUBLAS_CALLS(X)
#undef X
    } blas;
    char version[64]; /* of cuBLAS, e.g. "13.0.2"; "unknown" if it does not tell */
} peer_libraries;

/* Both libraries, or NULL with the missing one. Opened once; ATTEST_LIBCUDA and
 * ATTEST_LIBCUBLAS name other files. */
const peer_libraries *peer_libraries_get(const char **missing);

#endif
