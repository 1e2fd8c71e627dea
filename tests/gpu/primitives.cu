/* primitives.cu: each primitive of kernels/ by itself, for test_primitives.c to hold against the CPU. */
#include "kernels/async_copy.cuh"
#include "kernels/convert.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/math.cuh"
#include "kernels/mma.cuh"
#include "kernels/reduce.cuh"
#include "kernels/swizzle.cuh"
#include "kernels/vector.cuh"
#include "tests/gpu/primitives_params.h"

enum {
    THREADS = 32 * WARPS,
    SIDE = PRIMITIVES_SIDE,
    PITCH = SWIZZLE_PITCH(SIDE),
    TILE_BYTES = SIDE * PITCH,
    GROUPS = 4 /* of PRIMITIVES_GROUPS, at most */
};
static_assert(SIDE == 16 * WARPS, "a warp has 16 rows of the product");

static __shared__ __align__(128) unsigned char shared_memory[2 * TILE_BYTES];

/* Fragments filled as mma.cuh says they lie. */
DEVICE void run_mma(const primitives_params *p) {
    const int lane = (int)threadIdx.x, row = lane / 4, pair = lane % 4 * 2;
    if (lane >= 32)
        return;
    const half_bits *a = (const half_bits *)p->a + blockIdx.x * 256, *b = (const half_bits *)p->b + blockIdx.x * 128;
    unsigned left[4], right[2];
    for (int n = 0; n < 4; n++)
        left[n] = *(const unsigned *)(a + (row + n % 2 * 8) * 16 + pair + n / 2 * 8);
    for (int n = 0; n < 2; n++)
        right[n] = b[(pair + 8 * n) * 8 + row] | (unsigned)b[(pair + 8 * n + 1) * 8 + row] << 16;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    mma_16x8x16(d, left, right[0], right[1]);
    float *out = (float *)p->out + blockIdx.x * 128;
    for (int n = 0; n < 4; n++)
        out[(row + n / 2 * 8) * 8 + pair + n % 2] = d[n];
}

/* A matrix of rows x columns into a swizzled tile; zero outside, in chunks of eight columns. */
DEVICE void copy_tile(unsigned tile, const void *from, int rows, int columns) {
    for (int at = (int)threadIdx.x; at < SIDE * SIDE / 8; at += THREADS) {
        const int row = at / (SIDE / 8), chunk = at % (SIDE / 8);
        const bool inside = row < rows && 8 * chunk < columns;
        async_copy_16(tile + swizzled(row, chunk, PITCH),
                      (const half_bits *)from + (inside ? row * SIDE + 8 * chunk : 0), inside ? 16 : 0);
    }
}

DEVICE void run_tile(const primitives_params *p) {
    const unsigned left = shared_address(shared_memory), right = left + TILE_BYTES;
    const int lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32 * 16;
    const bool transposes = p->what == PRIMITIVES_TILE_KN;
    copy_tile(left, p->a, p->m, p->k);
    copy_tile(right, p->b, transposes ? p->k : p->n, transposes ? p->n : p->k);
    async_commit();
    ASYNC_WAIT(0);
    __syncthreads();
    float d[SIDE / 8][4] = {};
    for (int step = 0; step < SIDE / 16; step++) {
        unsigned a[4], b[4];
        ldmatrix_x4(a, left + swizzled(first + lane % 16, 2 * step + lane / 16, PITCH));
#pragma unroll
        for (int n = 0; n < SIDE / 8; n += 2) {
            if (transposes)
                ldmatrix_x4_trans(b, right + swizzled(16 * step + lane % 16, n + lane / 16, PITCH));
            else
                ldmatrix_x4(b, right + swizzled(8 * n + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2, PITCH));
            mma_16x8x16(d[n], a, b[0], b[1]);
            mma_16x8x16(d[n + 1], a, b[2], b[3]);
        }
    }
#pragma unroll
    for (int n = 0; n < SIDE / 8; n++)
#pragma unroll
        for (int x = 0; x < 4; x++) {
            const int i = first + lane / 4 + x / 2 * 8, j = 8 * n + lane % 4 * 2 + x % 2;
            if (i < p->m && j < p->n)
                ((float *)p->out)[i * SIDE + j] = d[n][x];
        }
}

DEVICE void run_swizzle(const primitives_params *p) {
    const int chunks = p->n / 16;
    for (int at = (int)threadIdx.x; at < p->m * chunks; at += THREADS)
        ((unsigned *)p->out)[at] = swizzled(at / chunks, at % chunks, p->n);
}

DEVICE void run_copy(const primitives_params *p) {
    for (int at = (int)threadIdx.x; at < p->k; at += THREADS)
        store_16((uint4 *)p->out + at, load_16((const uint4 *)p->a + at));
}

/* Each thread writes back what it copied, group by group, as soon as that has landed. */
DEVICE void run_groups(const primitives_params *p) {
    const unsigned base = shared_address(shared_memory);
    for (int group = 0; group < GROUPS; group++) {
        for (int at = (int)threadIdx.x; at < p->k; at += THREADS)
            if (at / THREADS % GROUPS == group)
                async_copy_16(base + 16 * at, (const uint4 *)p->a + at, 16);
        async_commit();
    }
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        if (group == 0)
            ASYNC_WAIT(3);
        else if (group == 1)
            ASYNC_WAIT(2);
        else if (group == 2)
            ASYNC_WAIT(1);
        else
            ASYNC_WAIT(0);
        for (int at = (int)threadIdx.x; at < p->k; at += THREADS)
            if (at / THREADS % GROUPS == group)
                store_16((uint4 *)p->out + at, *(const uint4 *)(shared_memory + 16 * at));
    }
}

DEVICE void run_reduce(const primitives_params *p) {
    const int lane = (int)threadIdx.x;
    if (lane >= 32)
        return;
    const float x = ((const float *)p->a)[lane];
    float *out = (float *)p->out;
    out[lane] = quad_max(x);
    out[lane + 32] = quad_sum(x);
    out[lane + 64] = warp_max(x);
    out[lane + 96] = warp_sum(x);
}

DEVICE void run_math(const primitives_params *p) {
    float *out = (float *)p->out;
    for (int at = (int)threadIdx.x; at < p->k; at += THREADS) {
        const float x = ((const float *)p->a)[at];
        out[at] = exp2_fast(x);
        out[at + p->k] = log2_fast(x);
    }
}

DEVICE void run_widen(const primitives_params *p) {
    for (int at = (int)threadIdx.x; at < p->k; at += THREADS)
        ((float *)p->out)[at] = load_as_float(p->a, at, DTYPE);
}

DEVICE void run_narrow(const primitives_params *p) {
    const float *x = (const float *)p->a;
    for (int at = (int)threadIdx.x; at < p->k; at += THREADS)
        store_from_float(p->out, at, DTYPE, x[at]);
    for (int at = (int)threadIdx.x; at < p->k / 2; at += THREADS)
        ((unsigned *)p->out)[p->k / 2 + at] = pack_16(DTYPE, x[2 * at], x[2 * at + 1]);
}

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL(const __grid_constant__ primitives_params p) {
    switch (p.what) {
    case PRIMITIVES_MMA:
        run_mma(&p);
        break;
    case PRIMITIVES_TILE:
    case PRIMITIVES_TILE_KN:
        run_tile(&p);
        break;
    case PRIMITIVES_SWIZZLE:
        run_swizzle(&p);
        break;
    case PRIMITIVES_COPY:
        run_copy(&p);
        break;
    case PRIMITIVES_GROUPS:
        run_groups(&p);
        break;
    case PRIMITIVES_REDUCE:
        run_reduce(&p);
        break;
    case PRIMITIVES_MATH:
        run_math(&p);
        break;
    case PRIMITIVES_WIDEN:
        run_widen(&p);
        break;
    case PRIMITIVES_NARROW:
        run_narrow(&p);
        break;
    }
}
