/* swizzle.cuh: tiles in shared memory whose rows and columns can both be read without bank
 * conflicts.
 *
 * A tile has rows of `pitch` bytes, a multiple of 128, on a 128-byte boundary. The 16-byte
 * chunk c of row r is stored at chunk c ^ (r % 8) of its row, so that eight rows of one chunk
 * column, which ldmatrix reads at once, fall into eight different groups of four banks. */
#ifndef ATT_SWIZZLE_CUH
#define ATT_SWIZZLE_CUH

#include "kernels/config.cuh"

/* Bytes from the start of the tile to chunk `chunk` of row `row`. */
DEVICE unsigned swizzled(int row, int chunk, int pitch) {
    return (unsigned)(row * pitch + ((USE_SWIZZLE ? chunk ^ (row & 7) : chunk) << 4));
}

/* From a lane's ldmatrix row at columns 0 to 15 to its `step`-th group of 16 columns. Within
 * 128 bytes the chunk is reached by flipping bits, because the swizzle is an exclusive or. */
DEVICE unsigned swizzle_step(unsigned row, int step) {
    return USE_SWIZZLE ? (row ^ (step % 4 << 5)) + step / 4 * 128 : row + step * 32;
}

/* The same for the `chunk`-th group of 8 columns, from the first. */
DEVICE unsigned swizzle_chunk(unsigned row, int chunk) {
    return USE_SWIZZLE ? (row ^ (chunk % 8 << 4)) + chunk / 8 * 128 : row + chunk * 16;
}

/* Bytes per row of `d` 16-bit elements. */
#define SWIZZLE_PITCH(d) (((d) + 63) / 64 * 128)

#endif
