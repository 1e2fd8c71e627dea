/* bwd_sm80_products.cuh: the products that a warp of bwd_sm80 computes for its own keys, and
 * the exchange of P and dS through shared memory. */
#ifndef ATT_BWD_SM80_PRODUCTS_CUH
#define ATT_BWD_SM80_PRODUCTS_CUH

#include "kernels/bwd_sm80_work.cuh"
#include "kernels/convert.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mma.cuh"

/* x^T = the warp's keys times rows: K Q^T or V dO^T. key_row and row are this lane's ldmatrix
 * rows. */
DEVICE void multiply(float x[K_TILES][C_TILES][4], unsigned key_row, unsigned row, int steps, int pitch) {
#pragma unroll
    for (int m = 0; m < K_TILES; m++)
#pragma unroll
        for (int n = 0; n < C_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[m][n][e] = 0.0f;
#pragma unroll
    for (int k = 0; k < steps; k++) {
        unsigned a[K_TILES][4];
#pragma unroll
        for (int m = 0; m < K_TILES; m++)
            ldmatrix_x4(a[m], swizzle_step(key_row, k) + m * 16 * pitch);
#pragma unroll
        for (int n = 0; n < C_TILES; n += 2) {
            unsigned b[4];
            ldmatrix_x4(b, swizzle_step(row, k) + n * 8 * pitch);
#pragma unroll
            for (int m = 0; m < K_TILES; m++) {
                mma_16x8x16(x[m][n], a[m], b[0], b[1]);
                mma_16x8x16(x[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Convert results, keys by rows, to left operands. */
DEVICE void pack_operands(unsigned a[K_TILES][C_TILES / 2][4], float x[K_TILES][C_TILES][4]) {
#pragma unroll
    for (int m = 0; m < K_TILES; m++)
#pragma unroll
        for (int n = 0; n < C_TILES; n++) {
            a[m][n / 2][n % 2 * 2] = pack_16(DTYPE, x[m][n][0], x[m][n][1]);
            a[m][n / 2][n % 2 * 2 + 1] = pack_16(DTYPE, x[m][n][2], x[m][n][3]);
        }
}

/* The `step`-th group of 16 columns in this warp's half of a row; a half has `steps` groups. */
DEVICE unsigned own_columns(unsigned row, int half, int steps, int step) {
    if (!IS_SHARED)
        return swizzle_step(row, step);
    if (steps % 4 == 0)
        return swizzle_step(row + half * (steps / 4 * 128), step);
    return half ? swizzle_step(row, steps + step) : swizzle_step(row, step);
}

/* sum += P^T dO or dS^T Q over CHUNK rows, from tile `first` on, for this warp's columns. `row`
 * is this lane's ldmatrix row of the right operand. */
DEVICE void accumulate(float sum[K_TILES][SUM_TILES][4], int first, int tiles, unsigned a[K_TILES][C_TILES / 2][4],
                       unsigned row, int half, int pitch) {
#pragma unroll
    for (int k = 0; k < CHUNK / 16; k++)
#pragma unroll
        for (int n = 0; n < tiles; n += 2) {
            unsigned b[4];
            ldmatrix_x4_trans(b, own_columns(row, half, tiles / 2, n / 2) + k * 16 * pitch);
#pragma unroll
            for (int m = 0; m < K_TILES; m++) {
                mma_16x8x16(sum[m][first + n], a[m][k], b[0], b[1]);
                mma_16x8x16(sum[m][first + n + 1], a[m][k], b[2], b[3]);
            }
        }
}

/* The byte offset in dS of 16-byte chunk `chunk` (eight rows) of key `key`. A line of 128 bytes
 * holds whole keys. Eight keys of one chunk column, which ldmatrix reads at once, fall into
 * different banks. */
DEVICE unsigned ds_place(int key, int chunk) {
    const int chunks = TILE_M / 8, keys = 8 / chunks, line = key / keys, at = key % keys * chunks + chunk;
    return (unsigned)(line * 128 + ((USE_SWIZZLE ? at ^ line % chunks : at) << 4));
}

/* Store P or dS of the warp's keys, CHUNK rows from row0 on, for other warps; and load it. */
DEVICE void store_operands(unsigned tile, int key0, int row0, unsigned a[K_TILES][C_TILES / 2][4]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < K_TILES; m++)
#pragma unroll
        for (int n = 0; n < C_TILES; n++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(
                                 tile + ds_place(key0 + m * 16 + half * 8 + lane / 4, row0 / 8 + n) + lane % 4 * 4),
                             "r"(a[m][n / 2][n % 2 * 2 + half])
                             : "memory");
}

DEVICE void load_operands(unsigned a[K_TILES][C_TILES / 2][4], unsigned tile, int key0, int row0) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < K_TILES; m++)
#pragma unroll
        for (int k = 0; k < CHUNK / 16; k++)
            ldmatrix_x4(a[m][k], tile + ds_place(key0 + m * 16 + lane % 16, row0 / 8 + 2 * k + lane / 16));
}

#endif
