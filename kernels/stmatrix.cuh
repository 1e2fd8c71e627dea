/* stmatrix.cuh: stores four 8 x 8 matrices of 16-bit elements from the layout of mma to shared
 * memory (sm_90 and newer). */
#ifndef ATT_STMATRIX_CUH
#define ATT_STMATRIX_CUH

#include "kernels/config.cuh"

/* Lane l gives the address of row l % 8 of matrix l / 8; r[i] is its share of matrix i. */
DEVICE void stmatrix_x4(unsigned address, const unsigned r[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]),
                 "r"(r[3])
                 : "memory");
}

#endif
