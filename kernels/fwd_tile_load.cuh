/* fwd_tile_load.cuh: loads tiles of Q, K and V from global memory into swizzled shared memory.
 *
 * Eight neighbouring threads copy 128 bytes of a row. Elements past the last row or column
 * become zero. */
#ifndef ATT_FWD_TILE_LOAD_CUH
#define ATT_FWD_TILE_LOAD_CUH

#include "kernels/async_copy.cuh"
#include "kernels/fwd_sequence.cuh"
#include "kernels/swizzle.cuh"

/* Copy `rows` rows of `d` elements, of which `valid` exist, into a tile for `d_tile`. rows and
 * d_tile are constants. Row r starts at first + r * stride, at a multiple of 16 bytes. */
DEVICE void copy_rows(unsigned tile, int rows, int d_tile, const half_bits *first, long long stride,
                      int valid, int d, int thread, int threads) {
    const int column = thread % 8;
#pragma unroll
    for (int i = 0; i < rows * 8 / threads; i++) {
        const int r = thread / 8 + i * (threads / 8);
        const half_bits *from = first + r * stride;
#pragma unroll
        for (int panel = 0; panel < (d_tile + 63) / 64; panel++) {
            const int chunk = 8 * panel + column;
            if (d_tile % 64 == 0 || chunk * 8 < d_tile)
                async_copy_16(tile + swizzled(r, chunk, SWIZZLE_PITCH(d_tile)), from + chunk * 8,
                              r < valid && chunk * 8 < d ? 16 : 0);
        }
    }
}

/* Load eight elements of any alignment, of which `valid` exist. */
DEVICE uint4 gather_8(const half_bits *from, int valid) {
    unsigned word[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned lo = 2 * i < valid ? from[2 * i] : 0, hi = 2 * i + 1 < valid ? from[2 * i + 1] : 0;
        word[i] = lo | hi << 16;
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Load one row of a tile from an element offset; a negative offset means that the row does not
 * exist. Aligned rows are copied asynchronously, others synchronously, element by element.
 * `column` is the number of this thread among the `columns` threads that share the row. */
DEVICE void load_row(unsigned tile, int d_tile, int r, const half_bits *base, long long offset, int d,
                     bool aligned, int column, int columns) {
    for (int chunk = column; chunk * 8 < d_tile; chunk += columns) {
        const unsigned to = tile + swizzled(r, chunk, SWIZZLE_PITCH(d_tile));
        const int valid = offset < 0 ? 0 : d - chunk * 8;
        const half_bits *from = base + (offset < 0 ? 0 : offset) + chunk * 8;
        if (aligned) {
            async_copy_16(to, from, valid > 0 ? 16 : 0);
        } else {
            const uint4 x = gather_8(from, valid);
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z),
                         "r"(x.w)
                         : "memory");
        }
    }
}

#endif
