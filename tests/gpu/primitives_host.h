/* primitives_host.h: what the tests of primitives on a GPU share: the kernel under test, two inputs and an output, and the count of
 * what holds. An includer has said how many bytes a buffer has, ROOM. */
#ifndef ATT_TESTS_PRIMITIVES_HOST_H
#define ATT_TESTS_PRIMITIVES_HOST_H

#include <stdint.h>
#include <stdio.h>

#include "base/dtype.h"
#include "cuda/launch.h"

static int passed, failed;
static const att_cuda_driver *cu;
static const att_cuda_function *function; /* of the type under test */
static att_dtype dtype;
static CUdeviceptr a, b, out;
static unsigned char host[ROOM];

static void check(int holds, const char *what) {
    passed += holds != 0;
    failed += holds == 0;
    if (!holds)
        printf("FAILED: %s, %s (last error: %s)\n", what, dtype == ATT_F16 ? "f16" : "bf16",
               att_last_error()->text);
}

/* Small whole numbers from a seed: every product and sum of them is exact in float32. */
static float whole(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)((int)(*seed >> 24) % 17 - 8);
}

static void *at(CUdeviceptr memory) {
    return (void *)(uintptr_t)memory;
}

static void put(CUdeviceptr to, const void *from, size_t bytes) {
    if (cu->MemcpyHtoD(to, from, bytes) != CUDA_SUCCESS)
        check(0, "copy to the GPU");
}

#endif
