/* primitives_sm90.cu: each primitive of Hopper by itself, for test_primitives_sm90.c to hold against the CPU. A block of one
 * warpgroup. */
#include "kernels/ldmatrix.cuh"
#include "kernels/mbarrier.cuh"
#include "kernels/packed.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/stmatrix.cuh"
#include "kernels/tma.cuh"
#include "kernels/vector.cuh"
#include "kernels/warpgroup.cuh"
#include "kernels/wgmma.cuh"
#include "tests/gpu/primitives_sm90_params.h"

enum { THREADS = 32 * WARPS, SIDE = PRIMITIVES_SM90_SIDE, ROW_BYTES = 128, PANEL = SIDE * ROW_BYTES };
static_assert(THREADS == WARPGROUP, "one warpgroup");

extern __shared__ char shared_memory[];

/* The first boundary of 1024 bytes. */
DEVICE unsigned shared_start(void) {
    return (shared_address(shared_memory) + 1023) & ~1023u;
}

DEVICE uint4 *shared_16(unsigned address) {
    return (uint4 *)__cvta_shared_to_generic(address);
}

/* rows x columns elements into panels of 64 columns, rows of 128 bytes, swizzled. */
DEVICE void fill_panels(unsigned to, const void *from, int rows, int columns) {
    const int chunks = columns / 8;
    for (int i = (int)threadIdx.x; i < rows * chunks; i += THREADS) {
        const int row = i / chunks, chunk = i % chunks;
        *shared_16(to + chunk / 8 * rows * ROW_BYTES + row * ROW_BYTES + ((chunk % 8 ^ (row & 7)) << 4)) =
            load_16((const half_bits *)from + row * columns + 8 * chunk);
    }
}

/* The left side as an operand in registers: step k's 16 columns. */
DEVICE void load_left(unsigned a[4][4], unsigned left) {
    const int row = 16 * ((int)threadIdx.x / 32) + (int)threadIdx.x % 16;
#pragma unroll
    for (int k = 0; k < 4; k++)
        ldmatrix_x4(a[k], left + row * ROW_BYTES + ((2 * k + (int)threadIdx.x % 32 / 16 ^ (row & 7)) << 4));
}

DEVICE void store_results(float *out, const float *d, int n) {
    const int lane = (int)threadIdx.x % 32, row = 16 * ((int)threadIdx.x / 32) + lane / 4;
#pragma unroll
    for (int i = 0; i < n / 2; i++)
        out[(row + i / 2 % 2 * 8) * n + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}

#define RUN_WGMMA_OF(N)                                                                                              \
    DEVICE void run_wgmma_##N(const primitives_sm90_params *p) {                                                           \
        const unsigned left = shared_start(), right = left + PANEL;                                                        \
        const bool mn = p->what == PRIMITIVES_WGMMA_MN;                                                                    \
        const unsigned long long from = wgmma_operand(wgmma_address(left), 16);                                            \
        const unsigned long long with = wgmma_operand(wgmma_address(right), mn ? PANEL : 16);                              \
        float d[N / 2];                                                                                                    \
        unsigned a[4][4];                                                                                                  \
        load_left(a, left);                                                                                                \
        _Pragma("unroll") for (int i = 0; i < N / 2; i++) d[i] = 1000.0f; /* the first step overwrites it */               \
        wgmma_fence();                                                                                                     \
        _Pragma("unroll") for (int k = 0; k < 4; k++) {                                                                    \
            if (p->what == PRIMITIVES_WGMMA)                                                                               \
                wgmma_##N(d, from + WGMMA_STEP(32 * k), with + WGMMA_STEP(32 * k), k > 0);                                 \
            else if (mn)                                                                                                   \
                wgmma_mn_##N(d, a[k], with + WGMMA_STEP(16 * ROW_BYTES * k), k > 0);                                       \
            else                                                                                                           \
                wgmma_k_##N(d, a[k], with + WGMMA_STEP(32 * k), k > 0);                                                    \
        }                                                                                                                  \
        wgmma_commit();                                                                                                    \
        WGMMA_WAIT(0);                                                                                                     \
        wgmma_results(d, N / 2);                                                                                           \
        store_results((float *)p->out, d, N);                                                                              \
    }

/* Every width that there is. */
#define WIDTHS(X) X(32) X(48) X(64) X(80) X(96) X(112) X(128) X(160) X(176) X(192) X(256)
WIDTHS(RUN_WGMMA_OF)

DEVICE void run_wgmma(const primitives_sm90_params *p) {
    const bool mn = p->what == PRIMITIVES_WGMMA_MN;
    fill_panels(shared_start(), p->a, SIDE, SIDE);
    fill_panels(shared_start() + PANEL, p->b, mn ? SIDE : p->n, mn ? p->n : SIDE);
    tma_publish();
    __syncthreads();
    switch (p->n) {
#define RUN_WIDTH(N)                                                                                                 \
    case N:                                                                                                                \
        run_wgmma_##N(p);                                                                                                  \
        break;
        WIDTHS(RUN_WIDTH)
    }
}

DEVICE void run_load(const primitives_sm90_params *p) {
    const unsigned to = shared_start(), barrier = to + p->rows * ROW_BYTES;
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_done();
        tma_prefetch_map(&p->map);
        mbarrier_expect(barrier, p->rows * ROW_BYTES);
        if (p->what == PRIMITIVES_TMA_LOAD_4D)
            tma_load_4d(to, &p->map, barrier, p->at[0], p->at[1], p->at[2], p->at[3]);
        else
            tma_load_5d(to, &p->map, barrier, p->at[0], p->at[1], p->at[2], p->at[3], p->at[4]);
    }
    __syncthreads();
    mbarrier_wait(barrier, 0);
    for (int i = (int)threadIdx.x; i < p->rows * ROW_BYTES / 16; i += THREADS)
        store_16((uint4 *)p->out + i, *shared_16(to + 16 * i));
}

DEVICE void run_store(const primitives_sm90_params *p) {
    fill_panels(shared_start(), p->a, p->rows, SIDE);
    tma_publish();
    __syncthreads();
    if (threadIdx.x == 0) {
        tma_store_5d(&p->map, shared_start(), p->at[0], p->at[1], p->at[2], p->at[3], p->at[4]);
        tma_store_commit();
        tma_store_wait_read();
        tma_store_wait();
    }
}

/* Warp 0 hands numbers to warp 1 through two places, whose barriers run through their phases. */
DEVICE void run_phases(const primitives_sm90_params *p) {
    enum { PLACES = 2 };
    const unsigned full = shared_start(), empty = full + PLACES * MBARRIER_BYTES, places = empty + PLACES * MBARRIER_BYTES;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < PLACES; i++) {
            mbarrier_init(full + i * MBARRIER_BYTES, 32);
            mbarrier_init(empty + i * MBARRIER_BYTES, 32);
        }
        mbarrier_init_done();
    }
    __syncthreads();
    for (int i = 0; i < p->k && warp < 2; i++) {
        const int place = i % PLACES, parity = i / PLACES & 1;
        volatile int *at = (volatile int *)shared_16(places) + 32 * place;
        if (warp == 0) {
            mbarrier_wait(empty + place * MBARRIER_BYTES, parity ^ 1);
            at[lane] = 1000 * i + lane;
            mbarrier_arrive(full + place * MBARRIER_BYTES);
        } else {
            mbarrier_wait(full + place * MBARRIER_BYTES, parity);
            ((int *)p->out)[32 * i + lane] = at[31 - lane];
            mbarrier_arrive(empty + place * MBARRIER_BYTES);
        }
    }
}

DEVICE void run_stmatrix(const primitives_sm90_params *p) {
    const int lane = (int)threadIdx.x;
    if (lane >= 32)
        return;
    const half_bits *a = (const half_bits *)p->a;
    unsigned x[4];
    for (int i = 0; i < 4; i++)
        x[i] = *(const unsigned *)(a + (lane / 4 + i % 2 * 8) * 16 + lane % 4 * 2 + i / 2 * 8);
    stmatrix_x4(shared_start() + lane % 16 * 32 + lane / 16 * 16, x);
    __syncwarp();
    store_16((uint4 *)p->out + lane, *shared_16(shared_start() + 16 * lane));
}

DEVICE void run_times_zero(const primitives_sm90_params *p) {
    const unsigned ones = DTYPE == BF16 ? 0x3f803f80 : 0x3c003c00;
    for (int i = (int)threadIdx.x; i < p->k; i += THREADS)
        ((unsigned *)p->out)[i] = times_zero_plus(DTYPE, ((const unsigned *)p->a)[i], ones);
}

/* A chain of launches: each lets the next be placed at once, and works only when the one before has ended. */
DEVICE void run_after(const primitives_sm90_params *p) {
    allow_next_kernel();
    wait_for_previous_kernel();
    float sum = 0.0f;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p->k; i++)
            sum += ((const volatile float *)p->a)[i];
        for (int i = 0; i < 10; i++)
            __nanosleep(1000); /* so that a next kernel that does not wait reads too early */
        *(float *)p->out = sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL(const __grid_constant__ primitives_sm90_params p) {
    switch (p.what) {
    case PRIMITIVES_WGMMA:
    case PRIMITIVES_WGMMA_K:
    case PRIMITIVES_WGMMA_MN:
        run_wgmma(&p);
        break;
    case PRIMITIVES_TMA_LOAD_4D:
    case PRIMITIVES_TMA_LOAD_5D:
        run_load(&p);
        break;
    case PRIMITIVES_TMA_STORE_5D:
        run_store(&p);
        break;
    case PRIMITIVES_PHASES:
        run_phases(&p);
        break;
    case PRIMITIVES_STMATRIX:
        run_stmatrix(&p);
        break;
    case PRIMITIVES_TIMES_ZERO:
        run_times_zero(&p);
        break;
    case PRIMITIVES_AFTER:
        run_after(&p);
        break;
    }
}
