/* shape.c: threads and shared memory of a block. */
#include "cuda/shape.h"

#include <string.h>

enum { WARP = 32, HALF = 2 /* bytes of an element in a tile */ };

/* Q, then `stages` tiles of K, then as many of V; at the end O takes the place of Q and more where it
 * needs more. */
static int tiles_of_16_bits(const att_cuda_kernel *k) {
    const int q = k->tile_m * k->d_qk;
    const int kv = k->stages * k->tile_n * (k->d_qk + k->d_v);
    const int o = k->tile_m * k->d_v;
    return HALF * (q + kv > o ? q + kv : o);
}

/* Kernels that are not listed have their tiles in static arrays, or none. */
static const struct {
    const char *source;
    int (*bytes)(const att_cuda_kernel *kernel);
} layouts[] = {
    {"fwd_sm80", tiles_of_16_bits},
};

uint32_t att_cuda_kernel_threads(const att_cuda_kernel *kernel) {
    return (uint32_t)(WARP * kernel->warps);
}

uint32_t att_cuda_kernel_shared(const att_cuda_kernel *kernel) {
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (strcmp(layouts[i].source, kernel->source) == 0)
            return (uint32_t)layouts[i].bytes(kernel);
    return 0;
}
