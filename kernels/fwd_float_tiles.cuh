/* fwd_float_tiles.cuh: loads float32 rows of Q, K and V and splits them into float16 terms in
 * shared memory.
 *
 * Eight neighbouring threads share a row; thread c of them has its pieces c, c + 8, ... of four
 * numbers. A tile of K or V is copied to a buffer in which every thread reads only what it
 * copied itself, so no barrier is needed before it is split into terms. */
#ifndef ATT_FWD_FLOAT_TILES_CUH
#define ATT_FWD_FLOAT_TILES_CUH

#include "kernels/async_copy.cuh"
#include "kernels/fwd_sequence.cuh"
#include "kernels/swizzle.cuh"
#include "kernels/two_terms.cuh"

#define PIECES(d) ((d) / 32) /* of a row, for one thread */

/* The row that a group of eight threads takes. Of 16 threads that store 8 bytes each at a time,
 * those of one row use the first half of the banks and those of the other row, four rows
 * further on, the second half. */
DEVICE int row_in_turn(int turn, int threads) {
    const int group = threadIdx.x / 8;
    return turn * (threads / 8) + (group & ~7) + (group & 1) * 4 + group / 2 % 4;
}

/* The largest absolute value of a row, from those of its eight threads. */
DEVICE float largest_in_row(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
}

/* Load four numbers of any alignment, of which `valid` exist. */
DEVICE float4 gather_4(const float *from, int valid) {
    return make_float4(valid > 0 ? from[0] : 0.0f, valid > 1 ? from[1] : 0.0f, valid > 2 ? from[2] : 0.0f,
                       valid > 3 ? from[3] : 0.0f);
}

/* Start the copies of this thread's pieces of a row to `to`. If offset < 0 the row does not
 * exist and becomes zero. */
DEVICE void copy_pieces(unsigned to, int d_tile, const float *base, long long offset, int d, bool aligned) {
#pragma unroll
    for (int i = 0; i < PIECES(d_tile); i++) {
        const int column = (threadIdx.x % 8 + 8 * i) * 4;
        const int valid = offset < 0 ? 0 : d - column;
        const float *from = base + (valid > 0 ? offset + column : 0);
        if (aligned)
            async_copy_16(to + column * 4, from, valid > 0 ? 16 : 0);
        else
            *(float4 *)__cvta_shared_to_generic(to + column * 4) = gather_4(from, valid);
    }
}

/* Split this thread's pieces of a row into terms: row r of the tile of big terms, and of the
 * tile of small terms, which is `apart` bytes further on. */
DEVICE void store_terms(char *tile, int apart, int r, int d_tile, const float4 *x, float scale) {
#pragma unroll
    for (int i = 0; i < PIECES(d_tile); i++) {
        const int piece = threadIdx.x % 8 + 8 * i;
        char *to = tile + swizzled(r, piece / 2, SWIZZLE_PITCH(d_tile)) + piece % 2 * 8;
        const two_terms a = two_terms_of(x[i].x, x[i].y, scale), b = two_terms_of(x[i].z, x[i].w, scale);
        *(uint2 *)to = make_uint2(a.big, b.big);
        *(uint2 *)(to + apart) = make_uint2(a.small, b.small);
    }
}

#endif
