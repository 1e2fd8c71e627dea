/* stmatrix_trans.cuh: as stmatrix.cuh, with each matrix transposed (sm_90 and newer). */
#ifndef ATT_STMATRIX_TRANS_CUH
#define ATT_STMATRIX_TRANS_CUH

#include "kernels/stmatrix.cuh"

DEVICE void stmatrix_x4_trans(unsigned address, const unsigned r[4]) {
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
        "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
        : "memory");
}

#endif
