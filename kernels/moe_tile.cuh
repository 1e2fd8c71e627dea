/* moe_tile.cuh: a tile of a product of experts: TILE_M rows, gathered by address, times B_ROWS
 * columns of weights.
 *
 * The including file defines B_ROWS. Operands pass through a ring of STAGES tiles of DEPTH
 * columns, swizzled. Rows and columns that do not exist are zero. Weights are stored as
 * (columns, depth) or as (depth, columns); in the latter case their tile has one row per step
 * of depth. */
#ifndef ATT_MOE_TILE_CUH
#define ATT_MOE_TILE_CUH

#include "kernels/async_copy.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mma.cuh"
#include "kernels/moe_work.cuh"
#include "kernels/swizzle.cuh"

#define DEPTH    64
#define THREADS  (32 * WARPS)
#define WARPS_M  (TILE_M >= 32 ? TILE_M / 32 : 1)
#define WARPS_N  (WARPS / WARPS_M)
#define M_TILES  (TILE_M / (16 * WARPS_M))
#define N_TILES  (B_ROWS / (8 * WARPS_N))
#define A_BYTES  (TILE_M * DEPTH * 2)
#define B_BYTES  (B_ROWS * DEPTH * 2)
#define RING     (STAGES * (A_BYTES + B_BYTES))
/* After the ring: the addresses of rows of either operand, or of chunks of eight columns. */
#define ROWS_AT  RING
#define SHARED   (RING + (TILE_M + B_ROWS) * 8)

CHECK_SHARED(SHARED);
static_assert(WARPS % WARPS_M == 0 && B_ROWS % (16 * WARPS_N) == 0 && B_ROWS % 64 == 0, "warps share the tile evenly");
static_assert(TILE_M * 8 % THREADS == 0 && B_ROWS * 8 % THREADS == 0, "threads share the chunks evenly");

typedef struct tile_operands {
    const half_bits **rows; /* TILE_M left rows, then B_ROWS columns or their chunks; 0: none */
    const half_bits *none;  /* a dummy address, a multiple of 16, for what does not exist */
    int depth;
    bool vector_a, vector_b; /* rows are whole vectors of 16 bytes */
    bool by_depth;           /* weights are stored as (depth, columns): */
    long long step, step_odd; /* stride of a row of depth, in even and in odd chunks; */
    int columns;             /* columns that exist, from the first of the tile on, */
    int fold;                /* and chunks per column, 1 or 2 */
} tile_operands;

/* Store eight elements of any alignment, of which the first `valid` exist. */
DEVICE void place_8(unsigned to, const half_bits *from, int valid) {
    unsigned word[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned lo = 2 * i < valid ? from[2 * i] : 0, hi = 2 * i + 1 < valid ? from[2 * i + 1] : 0;
        word[i] = lo | hi << 16;
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                 : "memory");
}

/* Load 16 bytes of a tile, of which `valid` elements exist. */
DEVICE void load_chunk(unsigned to, const half_bits *from, int valid, bool vector) {
    if (vector)
        async_copy_16(to, from, valid > 0 ? 16 : 0);
    else
        place_8(to, from, valid);
}

/* Load columns depth0 .. of `count` rows (a constant). */
DEVICE void load_rows(const tile_operands *o, const half_bits *const *rows, unsigned tile, int count, int depth0, bool vector) {
#pragma unroll
    for (int i = 0; i < count * 8 / THREADS; i++) {
        const int r = threadIdx.x / 8 + i * (THREADS / 8), chunk = threadIdx.x % 8, at = depth0 + chunk * 8;
        const half_bits *row = rows[r];
        const int valid = row ? o->depth - at : 0;
        load_chunk(tile + swizzled(r, chunk, DEPTH * 2), valid > 0 ? row + at : o->none, valid, vector);
    }
}

/* Load rows of depth from depth0 on. */
DEVICE void load_depth(const tile_operands *o, const half_bits *const *chunks, unsigned tile, int depth0) {
    enum { CHUNKS = B_ROWS / 8 };
#pragma unroll
    for (int i = 0; i < DEPTH * CHUNKS / THREADS; i++) {
        const int n = threadIdx.x + i * THREADS, r = n / CHUNKS, chunk = n % CHUNKS;
        const half_bits *column = chunks[chunk];
        const bool there = column && depth0 + r < o->depth;
        const int valid = there ? o->columns - chunk / o->fold * 8 : 0;
        const long long step = chunk % 2 ? o->step_odd : o->step;
        load_chunk(tile + swizzled(r, chunk, B_ROWS * 2), valid > 0 ? column + (depth0 + r) * step : o->none, valid,
                   o->vector_b);
    }
}

DEVICE void load_stage(const tile_operands *o, unsigned ring, int stage, int depth0) {
    const unsigned a = ring + stage * (A_BYTES + B_BYTES), b = a + A_BYTES;
    load_rows(o, o->rows, a, TILE_M, depth0, o->vector_a);
    if (o->by_depth)
        load_depth(o, o->rows + TILE_M, b, depth0);
    else
        load_rows(o, o->rows + TILE_M, b, B_ROWS, depth0, o->vector_b);
}

/* The first row and column of a warp's results in the tile. */
DEVICE int warp_row(void) {
    return threadIdx.x / 32 / WARPS_N * (M_TILES * 16);
}

DEVICE int warp_column(void) {
    return threadIdx.x / 32 % WARPS_N * (N_TILES * 8);
}

/* The ldmatrix address for two neighbouring tiles of eight columns, 16 steps of depth.
 * `by_depth` is a constant. */
DEVICE unsigned weights_at(unsigned b, int column, int step, bool by_depth) {
    const int lane = threadIdx.x % 32;
    if (by_depth)
        return b + swizzled(step * 16 + lane % 16, column / 8 + lane / 16, B_ROWS * 2);
    return b + swizzled(column + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2, DEPTH * 2);
}

DEVICE void multiply_stage(float sum[M_TILES][N_TILES][4], unsigned a, unsigned b, bool by_depth) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < DEPTH / 16; step++) {
        unsigned left[M_TILES][4];
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
            ldmatrix_x4(left[m], a + swizzled(warp_row() + m * 16 + lane % 16, step * 2 + lane / 16, DEPTH * 2));
#pragma unroll
        for (int n = 0; n < N_TILES; n += 2) {
            unsigned right[4];
            const unsigned at = weights_at(b, warp_column() + n * 8, step, by_depth);
            if (by_depth)
                ldmatrix_x4_trans(right, at);
            else
                ldmatrix_x4(right, at);
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                mma_16x8x16(sum[m][n], left[m], right[0], right[1]);
                mma_16x8x16(sum[m][n + 1], left[m], right[2], right[3]);
            }
        }
    }
}

/* The whole product. The rows of `o` must have been written. The ring is free again on
 * return. */
DEVICE void multiply(float sum[M_TILES][N_TILES][4], const tile_operands *o, unsigned ring) {
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[m][n][e] = 0.0f;
    __syncthreads();
    const int steps = (o->depth + DEPTH - 1) / DEPTH;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            load_stage(o, ring, s, s * DEPTH);
        async_commit();
    }
    int stage = 0;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
        ASYNC_WAIT(STAGES - 2);
        __syncthreads();
        const int ahead = s + STAGES - 1;
        if (ahead < steps)
            load_stage(o, ring, stage == 0 ? STAGES - 1 : stage - 1, ahead * DEPTH);
        async_commit();
        const unsigned a = ring + stage * (A_BYTES + B_BYTES);
        if (o->by_depth)
            multiply_stage(sum, a, a + A_BYTES, true);
        else
            multiply_stage(sum, a, a + A_BYTES, false);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    ASYNC_WAIT(0);
    __syncthreads();
}

#endif
