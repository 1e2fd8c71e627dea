/* vector.cuh: 16 bytes at a time from and to global memory. */
#ifndef ATT_VECTOR_CUH
#define ATT_VECTOR_CUH

#include "kernels/config.cuh"

/* Both want addresses that are multiples of 16. The load is for data that no one writes meanwhile. */
DEVICE uint4 load_16(const void *global) {
    return __ldg((const uint4 *)global);
}

DEVICE void store_16(void *global, uint4 value) {
    *(uint4 *)global = value;
}

#endif
