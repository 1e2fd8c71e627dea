/* ldmatrix.cuh: four 8 x 8 matrices of 16-bit elements from shared memory into the layout of mma. */
#ifndef ATT_LDMATRIX_CUH
#define ATT_LDMATRIX_CUH

#include "kernels/config.cuh"

/* The address of an object in shared memory, as instructions want it. */
DEVICE unsigned shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Lane l gives the address of row l % 8 of matrix l / 8; r[i] is its share of matrix i. */
DEVICE void ldmatrix_x4(unsigned r[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

/* The same, each matrix transposed. */
DEVICE void ldmatrix_x4_trans(unsigned r[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

#endif
