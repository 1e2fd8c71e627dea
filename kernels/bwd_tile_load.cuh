/* bwd_tile_load.cuh: loads tiles of any type and alignment into swizzled shared memory, as
 * elements of DTYPE. */
#ifndef ATT_BWD_TILE_LOAD_CUH
#define ATT_BWD_TILE_LOAD_CUH

#include "kernels/convert.cuh"
#include "kernels/fwd_tile_load.cuh"

/* The number that becomes term 0 or 1 of x once rounded to DTYPE: x itself, or what rounding x
 * leaves over. */
DEVICE float term_of(float x, int term) {
    if (term == 0)
        return x;
    const half_bits rounded = (half_bits)(pack_16(DTYPE, x, 0.0f) & 0xffffu);
    return x - (DTYPE == BF16 ? bf16_to_float(rounded) : f16_to_float(rounded));
}

/* Load one row of elements of `type` from an element offset; a negative offset means that the
 * row does not exist. `column` is the number of this thread among the 8 of the row. */
DEVICE void load_rounded_row(unsigned tile, int d_tile, int r, const void *base, long long offset, int d, int type,
                             int column, int term) {
    for (int chunk = column; chunk * 8 < d_tile; chunk += 8) {
        unsigned word[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int c = chunk * 8 + 2 * i;
            const float lo = offset >= 0 && c < d ? load_as_float(base, offset + c, type) : 0.0f;
            const float hi = offset >= 0 && c + 1 < d ? load_as_float(base, offset + c + 1, type) : 0.0f;
            word[i] = pack_16(DTYPE, term_of(lo, term), term_of(hi, term));
        }
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(tile + swizzled(r, chunk, SWIZZLE_PITCH(d_tile))),
                     "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                     : "memory");
    }
}

/* Load `rows` rows of a tensor of `type`, of which `valid` exist, from element `first` on: with
 * asynchronous copies if they are of DTYPE and aligned, otherwise synchronously. For other
 * types `term` selects the term. */
DEVICE void load_tile_of(unsigned tile, int rows, int d_tile, int d, const void *tensor, int type, long long first,
                         long long stride, int valid, bool aligned, int threads, int term) {
    if (type == DTYPE && aligned) {
        const int sharing = threads < 8 * rows ? threads : 8 * rows;
        if ((int)threadIdx.x < sharing)
            copy_rows(tile, rows, d_tile, (const half_bits *)tensor + first, stride, valid, d, threadIdx.x, sharing);
        return;
    }
    for (int r = threadIdx.x / 8; r < rows; r += threads / 8) {
        const long long at = r < valid ? first + r * stride : -1;
        if (type == DTYPE)
            load_row(tile, d_tile, r, (const half_bits *)tensor, at, d, false, threadIdx.x % 8, 8);
        else
            load_rounded_row(tile, d_tile, r, tensor, at, d, type, threadIdx.x % 8, term);
    }
}

#endif
