/* vector.cuh: 16-byte loads from and stores to global memory. */
#ifndef ATT_VECTOR_CUH
#define ATT_VECTOR_CUH

#include "kernels/config.cuh"

/* Both need addresses that are multiples of 16. The load is for data that is not written at the
 * same time. */
DEVICE uint4 load_16(const void *global) {
    return __ldg((const uint4 *)global);
}

DEVICE void store_16(void *global, uint4 value) {
    *(uint4 *)global = value;
}

#endif
