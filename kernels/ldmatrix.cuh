/* ldmatrix.cuh: loads four 8 x 8 matrices of 16-bit elements from shared memory in the layout
 * of mma. */
#ifndef ATT_LDMATRIX_CUH
#define ATT_LDMATRIX_CUH

#include "kernels/config.cuh"

/* The shared-memory address of an object, as instructions take it. */
DEVICE unsigned shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Without ldmatrix: load element (row, column) of matrix `matrix` and its neighbour; another
 * lane has the row's address. */
DEVICE unsigned load_pair(unsigned address, int matrix, int row, int column) {
    const unsigned from = __shfl_sync(0xffffffffu, address, 8 * matrix + row);
    return *(const unsigned *)__cvta_shared_to_generic(from + 2 * column);
}

DEVICE unsigned load_one(unsigned address, int matrix, int row, int column) {
    const unsigned from = __shfl_sync(0xffffffffu, address, 8 * matrix + row);
    return *(const half_bits *)__cvta_shared_to_generic(from + 2 * column);
}

/* Lane l gives the address of row l % 8 of matrix l / 8; r[i] is its share of matrix i. */
DEVICE void ldmatrix_x4(unsigned r[4], unsigned address) {
    const int lane = threadIdx.x % 32;
    if (!USE_LDMATRIX) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            r[i] = load_pair(address, i, lane / 4, lane % 4 * 2);
        return;
    }
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

/* The same, each matrix transposed. */
DEVICE void ldmatrix_x4_trans(unsigned r[4], unsigned address) {
    const int lane = threadIdx.x % 32;
    if (!USE_LDMATRIX) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            r[i] = load_one(address, i, lane % 4 * 2, lane / 4) |
                   load_one(address, i, lane % 4 * 2 + 1, lane / 4) << 16;
        return;
    }
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

#endif
