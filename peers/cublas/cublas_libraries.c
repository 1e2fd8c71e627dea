/* cublas_libraries.c: dlopen() of the driver and of cuBLAS. */
#include "peers/cublas/cublas_libraries.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* The driver's functions are looked up by the version of their signatures. */
enum { CUDA_12_0 = 12000 };

static void *open_first(const char *chosen, const char *const *names) {
    const char *own = getenv(chosen);
    if (own && *own)
        return dlopen(own, RTLD_NOW | RTLD_LOCAL);
    void *library = NULL;
    for (; !library && *names; names++)
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library;
}

static int open_driver(peer_libraries *l) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *library = open_first("ATTEST_LIBCUDA", names);
    int (*find)(const char *, void **, int, unsigned long long, int *) = NULL;
    if (library)
        *(void **)(&find) = dlsym(library, "cuGetProcAddress_v2");
    if (!find)
        return 0;
    void *address;
#define X(name, parameters)                                                                    \
    address = NULL;                                                                            \
    if (find("cu" #name, &address, CUDA_12_0, 0, NULL) != 0 || !address)                       \
        return 0;                                                                              \
    *(void **)(&l->cu.name) = address;
    PEER_DRIVER_CALLS(X)
#undef X
    return 1;
}

static void read_version(peer_libraries *l, void *library) {
    int (*property)(int, int *) = NULL, part[3];
    *(void **)(&property) = dlsym(library, "cublasGetProperty");
    snprintf(l->version, sizeof l->version, "unknown");
    for (int i = 0; i < 3; i++)
        if (!property || property(i, &part[i]) != 0)
            return;
    snprintf(l->version, sizeof l->version, "%d.%d.%d", part[0], part[1], part[2]);
}

static int open_cublas(peer_libraries *l) {
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12",
                                        "/usr/local/cuda/lib64/libcublas.so.13",
                                        "/usr/local/cuda/lib64/libcublas.so.12", NULL};
    void *library = open_first("ATTEST_LIBCUBLAS", names);
    if (!library)
        return 0;
    void *address;
#define X(name, parameters)                                                                    \
    address = dlsym(library, "cublas" #name);                                                  \
    if (!address)                                                                              \
        return 0;                                                                              \
    *(void **)(&l->blas.name) = address;
    PEER_CUBLAS_CALLS(X)
#undef X
    read_version(l, library);
    return 1;
}

const peer_libraries *peer_libraries_get(const char **missing) {
    static peer_libraries libraries;
    static const char *absent = "";
    if (absent && !*absent)
        absent = !open_driver(&libraries)   ? "the CUDA driver is not found"
                 : !open_cublas(&libraries) ? "cuBLAS is not found"
                                            : NULL;
    *missing = absent;
    return absent ? NULL : &libraries;
}
