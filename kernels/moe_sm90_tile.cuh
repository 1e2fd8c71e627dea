/* moe_sm90_tile.cuh: a tile of a product of experts on Hopper: TILE_M positions times B_ROWS
 * rows of weights.
 *
 * The including file defines B_ROWS. One warpgroup fills a ring of STAGES tiles of both
 * operands, 64 columns deep; TILE_M / 64 warpgroups of 64 positions each empty it. Blocks are
 * persistent and take every gridDim.x-th of the items that find_work() counts. The ring
 * continues from item to item, so that the operands of the next item are loaded while results
 * are stored. */
#ifndef ATT_MOE_SM90_TILE_CUH
#define ATT_MOE_SM90_TILE_CUH

#include "kernels/convert.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mbarrier.cuh"
#include "kernels/moe_sm90_params.h"
#include "kernels/moe_work.cuh"
#include "kernels/swizzle.cuh"
#include "kernels/tma.cuh"
#include "kernels/vector.cuh"
#include "kernels/warpgroup.cuh"
#include "kernels/wgmma.cuh"

#define DEPTH       64
#define GROUP_ROWS  64
#define CONSUMERS   (TILE_M / GROUP_ROWS)
#define THREADS     (WARPGROUP * (CONSUMERS + 1))
#define ROW_BYTES   (DEPTH * 2)
#define A_BYTES     (TILE_M * ROW_BYTES)
#define STAGE_BYTES ((TILE_M + B_ROWS) * ROW_BYTES)
/* The output buffer: 16 rows of 64 columns per warp. */
#define OUT_AT      (STAGES * STAGE_BYTES)
#define OUT_ROWS    16
#define OUT_BYTES   (OUT_ROWS * ROW_BYTES)
/* Items that the consumers have not read yet: each has at least one slot of the ring. */
#define WORK_AT     (OUT_AT + CONSUMERS * 4 * OUT_BYTES)
#define WORK_PLACES 10
/* Biases of the columns, separately for each warpgroup. */
#define BIAS_AT     (WORK_AT + WORK_PLACES * 16)
#define FULL_AT     (BIAS_AT + CONSUMERS * B_ROWS * 4)
#define EMPTY_AT    (FULL_AT + STAGES * MBARRIER_BYTES)
#define SHARED      (EMPTY_AT + STAGES * MBARRIER_BYTES)
/* Blocks per SM, and the registers that the warpgroups of the large ones hand over. */
#define BLOCKS         (CONSUMERS == 1 ? 2 : 1)
#define KEEP_REGISTERS 56
#define TAKE_REGISTERS 224

CHECK_SHARED(SHARED);
static_assert(32 * WARPS == THREADS, "a warpgroup loads, the others multiply");
static_assert(STAGES + 1 < WORK_PLACES && sizeof(tile_work) == 16, "items wait in shared memory");
static_assert(B_ROWS % 32 == 0 && B_ROWS <= 256 && TILE_M % GROUP_ROWS == 0, "whole products");

/* A slot of the ring, and the parity of its barriers' phase. */
typedef struct ring {
    int place, parity;
} ring;

DEVICE void advance(ring *r) {
    r->place++;
    if (r->place == STAGES) {
        r->place = 0;
        r->parity ^= 1;
    }
}

DEVICE unsigned full(unsigned shared, int place) {
    return shared + FULL_AT + place * MBARRIER_BYTES;
}

DEVICE unsigned empty(unsigned shared, int place) {
    return shared + EMPTY_AT + place * MBARRIER_BYTES;
}

DEVICE tile_work *work_at(char *shared, int n) {
    return (tile_work *)(shared + WORK_AT) + n % WORK_PLACES;
}

/* Slots of the ring between two steps of the lookup of the next item. */
#define LOOK_EVERY 4

/* Initialise the barriers; `arrivals` is the count at `full`. */
DEVICE void begin(const att_moe_sm90_params *h, unsigned shared, int arrivals) {
    if (threadIdx.x == 0) {
        tma_prefetch_map(&h->h);
        tma_prefetch_map(&h->w);
        tma_prefetch_map(&h->w3);
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(full(shared, i), arrivals);
            mbarrier_init(empty(shared, i), CONSUMERS * 4);
        }
        mbarrier_init_done();
    }
    __syncthreads();
}

/* Release a slot. All lanes have read it and, before that, the item. */
DEVICE void leave(unsigned shared, int place) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        mbarrier_arrive(empty(shared, place));
}

/* The product of the warpgroup's rows over `steps` slots of the ring. */
DEVICE void multiply(float d[B_ROWS / 2], unsigned shared, ring *r, int steps) {
    const int group = threadIdx.x / WARPGROUP;
    int last = 0;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
        mbarrier_wait(full(shared, r->place), r->parity);
        const unsigned tile = shared + r->place * STAGE_BYTES;
        const unsigned long long a = wgmma_operand(wgmma_address(tile + group * GROUP_ROWS * ROW_BYTES), 0);
        const unsigned long long b = wgmma_operand(wgmma_address(tile + A_BYTES), 0);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++)
            WGMMA(B_ROWS)(d, a + WGMMA_STEP(k * 32), b + WGMMA_STEP(k * 32), s + k > 0);
        wgmma_commit();
        WGMMA_WAIT(1);
        if (s > 0)
            leave(shared, last);
        last = r->place;
        advance(r);
    }
    WGMMA_WAIT(0);
    wgmma_results(d, B_ROWS / 2);
    leave(shared, last);
}

/* The same for a warpgroup that has no rows: it only releases the slots. */
DEVICE void pass_by(unsigned shared, ring *r, int steps) {
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
        mbarrier_wait(full(shared, r->place), r->parity);
        leave(shared, r->place);
        advance(r);
    }
}

/* Load biases before the product: `bias_at(i)` is that of row i of the weights' tile. */
#define BRING_BIASES(base, bias_at)                                                                                                    \
    do {                                                                                                                               \
        const int group_ = threadIdx.x / WARPGROUP;                                                                                    \
        float *biases_ = (float *)((base) + BIAS_AT) + group_ * B_ROWS;                                                                \
        named_barrier_wait(1 + group_, WARPGROUP); /* the previous item's have been added */                                           \
        for (int i_ = threadIdx.x % WARPGROUP; i_ < B_ROWS; i_ += WARPGROUP)                                                            \
            biases_[i_] = bias_at(i_);                                                                                                 \
        named_barrier_wait(1 + group_, WARPGROUP);                                                                                     \
    } while (0)

DEVICE void add_biases(float d[B_ROWS / 2], const char *base) {
    const float *biases = (const float *)(base + BIAS_AT) + threadIdx.x / WARPGROUP * B_ROWS + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < B_ROWS / 8; j++) {
        const float2 pair = *(const float2 *)(biases + j * 8);
        d[4 * j] += pair.x;
        d[4 * j + 1] += pair.y;
        d[4 * j + 2] += pair.x;
        d[4 * j + 3] += pair.y;
    }
}

/* The output buffer of a warp; rows of 64 columns. */
DEVICE unsigned out_of_warp(unsigned shared) {
    return shared + OUT_AT + threadIdx.x / 32 * OUT_BYTES;
}

/* Columns c and c + 1, c even. */
DEVICE void put_pair(unsigned out, int row, int c, unsigned pair) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(out + swizzled(row, c / 8, ROW_BYTES) + c % 8 * 2), "r"(pair) : "memory");
}

DEVICE void put_one(unsigned out, int row, int c, float x) {
    const half_bits rounded = (half_bits)(pack_16(DTYPE, x, 0.0f) & 0xffffu);
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(out + swizzled(row, c / 8, ROW_BYTES) + c % 8 * 2), "h"(rounded) : "memory");
}

/* The row of the i-th of the four chunks of eight columns that a lane reads back, and the
 * chunk. */
DEVICE int chunk_row(int i) {
    return i * 4 + threadIdx.x % 32 / 8;
}

DEVICE uint4 take_chunk(unsigned out, int i) {
    uint4 x;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(out + swizzled(chunk_row(i), threadIdx.x % 8, ROW_BYTES))
                 : "memory");
    return x;
}

#endif
