/* moe_sm90_tile.cuh: a tile of a product of experts on Hopper: B_ROWS rows of weights times up
 * to TILE_M positions.
 *
 * The including file defines B_ROWS, and COPIED_BY_THREADS: whether threads copy the positions,
 * and not the copy engine; those that multiply must then fence first.
 *
 * Weights are the left operand of the tensor cores, positions the right one, of which a product
 * may have any multiple of 16: an expert with few tokens costs what they cost. One warpgroup
 * fills a ring of STAGES tiles of both operands, 64 columns deep; the others empty it, each with
 * 64 rows of both halves of the weights' tile (gate and up). The ring continues from item to
 * item, so that the operands of the next item are loaded while results are stored. An item
 * without positions is the end. */
#ifndef ATT_MOE_SM90_TILE_CUH
#define ATT_MOE_SM90_TILE_CUH

#include "kernels/convert.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mbarrier.cuh"
#include "kernels/moe_sm90_items.cuh"
#include "kernels/moe_sm90_params.h"
#include "kernels/stmatrix_trans.cuh"
#include "kernels/swizzle.cuh"
#include "kernels/tma.cuh"
#include "kernels/vector.cuh"
#include "kernels/warpgroup.cuh"
#include "kernels/wgmma.cuh"

#define DEPTH         64
#define GROUP_ROWS    64             /* of each half, per warpgroup */
#define HALF_ROWS     (B_ROWS / 2)
#define CONSUMERS     (HALF_ROWS / GROUP_ROWS)
#define THREADS       (WARPGROUP * (CONSUMERS + 1))
#define ROW_BYTES     (DEPTH * 2)
#define WEIGHTS_BYTES (B_ROWS * ROW_BYTES)
#define STAGE_BYTES   ((B_ROWS + TILE_M) * ROW_BYTES)
/* The output buffer of a multiplying warp: TILE_UNIT positions of 16 columns. */
#define OUT_AT        (STAGES * STAGE_BYTES)
#define OUT_COLUMNS   16
#define OUT_BYTES     (TILE_UNIT * OUT_COLUMNS * 2)
/* Slot and weight of every position, separately for each warpgroup (moe_sm90_down). */
#define SLOTS_AT      (OUT_AT + CONSUMERS * 4 * OUT_BYTES)
/* Items that the consumers have not read yet: each has at least one slot of the ring. */
#define WORK_AT       (SLOTS_AT + CONSUMERS * TILE_M * 8)
#define WORK_PLACES   10
/* The numbers of the next items, for the threads that load (moe_sm90). */
#define NUMBERS_AT    (WORK_AT + WORK_PLACES * 16)
#define FULL_AT       (NUMBERS_AT + 8)
#define EMPTY_AT      (FULL_AT + STAGES * MBARRIER_BYTES)
#define SHARED        (EMPTY_AT + STAGES * MBARRIER_BYTES)
/* Blocks per SM, and the registers that the warpgroups of the large ones hand over. */
#define BLOCKS         (CONSUMERS == 1 ? 2 : 1)
#define KEEP_REGISTERS 72
#define TAKE_REGISTERS 216

CHECK_SHARED(SHARED);
static_assert(32 * WARPS == THREADS, "a warpgroup loads, the others multiply");
static_assert(STAGES + 1 < WORK_PLACES && sizeof(tile_work) == 16, "items wait in shared memory");
static_assert(B_ROWS % (2 * GROUP_ROWS) == 0 && B_ROWS <= 256 && TILE_M % TILE_UNIT == 0, "whole products");

/* Named barriers: of each multiplying warpgroup 1 + its number, of the loading one: */
enum { BARRIER_LOAD = 1 + CONSUMERS };

/* Slots of the ring between two steps of the lookup of the next item. */
#define LOOK_EVERY 4

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

/* The number of positions that a product has: a multiple of TILE_UNIT. */
DEVICE int units_of(const tile_work *w) {
    return (w->count + TILE_UNIT - 1) / TILE_UNIT;
}

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

/* Release a slot whose products were waited for: all lanes have come to the wait, and have read
 * the item before. */
DEVICE void leave(unsigned shared, int place) {
    if (threadIdx.x % 32 == 0)
        mbarrier_arrive(empty(shared, place));
}

/* Results of a warpgroup: its 64 rows of each half of the weights' tile, times the positions. */
typedef struct results {
    float first[TILE_M / 2], second[TILE_M / 2];
} results;

/* multiply_N: the product with N positions over `steps` slots of the ring. */
#define MULTIPLY_OF(N)                                                                                                     \
    DEVICE void multiply_##N(results *d, unsigned shared, ring *r, int steps) {                                            \
        const unsigned rows = threadIdx.x / WARPGROUP * GROUP_ROWS * ROW_BYTES;                                            \
        int last = 0;                                                                                                      \
        wgmma_zero(d->first, N / 2);                                                                                       \
        wgmma_zero(d->second, N / 2);                                                                                      \
        _Pragma("unroll 1") for (int s = 0; s < steps; s++) {                                                              \
            mbarrier_wait(full(shared, r->place), r->parity);                                                              \
            if (COPIED_BY_THREADS)                                                                                         \
                tma_publish();                                                                                             \
            const unsigned tile = shared + r->place * STAGE_BYTES;                                                         \
            const unsigned long long a = wgmma_operand(wgmma_address(tile + rows), 0);                                     \
            const unsigned long long b = wgmma_operand(wgmma_address(tile + WEIGHTS_BYTES), 0);                            \
            wgmma_fence();                                                                                                 \
            _Pragma("unroll") for (int k = 0; k < DEPTH / 16; k++) {                                                       \
                wgmma_##N(d->first, a + WGMMA_STEP(k * 32), b + WGMMA_STEP(k * 32), 1);                            \
                wgmma_##N(d->second, a + WGMMA_STEP(HALF_ROWS * ROW_BYTES + k * 32), b + WGMMA_STEP(k * 32), 1);   \
            }                                                                                                              \
            wgmma_commit();                                                                                                \
            WGMMA_WAIT(1);                                                                                                 \
            if (s > 0)                                                                                                     \
                leave(shared, last);                                                                                       \
            last = r->place;                                                                                               \
            advance(r);                                                                                                    \
        }                                                                                                                  \
        WGMMA_WAIT(0);                                                                                                     \
        wgmma_results(d->first, N / 2);                                                                                    \
        wgmma_results(d->second, N / 2);                                                                                   \
        leave(shared, last);                                                                                               \
    }

MULTIPLY_OF(16)
MULTIPLY_OF(32)
#if TILE_M > 32
MULTIPLY_OF(48)
MULTIPLY_OF(64)
#endif
#if TILE_M > 64
MULTIPLY_OF(80)
MULTIPLY_OF(96)
MULTIPLY_OF(112)
MULTIPLY_OF(128)
MULTIPLY_OF(144)
MULTIPLY_OF(160)
MULTIPLY_OF(176)
#endif
static_assert(TILE_M == 32 || TILE_M == 64 || TILE_M == 176, "a product for every number of positions");

DEVICE void multiply(results *d, unsigned shared, ring *r, int steps, int units) {
    switch (units) {
    case 1:
        multiply_16(d, shared, r, steps);
        break;
#if TILE_M > 32
    case 3:
        multiply_48(d, shared, r, steps);
        break;
    case 4:
        multiply_64(d, shared, r, steps);
        break;
#endif
#if TILE_M > 64
    case 5:
        multiply_80(d, shared, r, steps);
        break;
    case 6:
        multiply_96(d, shared, r, steps);
        break;
    case 7:
        multiply_112(d, shared, r, steps);
        break;
    case 8:
        multiply_128(d, shared, r, steps);
        break;
    case 9:
        multiply_144(d, shared, r, steps);
        break;
    case 10:
        multiply_160(d, shared, r, steps);
        break;
    case 11:
        multiply_176(d, shared, r, steps);
        break;
#endif
    default:
        multiply_32(d, shared, r, steps);
    }
}

/* The first of the warp's 16 rows within a half of the weights' tile. Of their results a lane
 * has rows lane / 4 and lane / 4 + 8. */
DEVICE int warp_row(void) {
    return threadIdx.x / 32 * OUT_COLUMNS;
}

/* ------------------------------------------------------------------------- results' way out */

DEVICE unsigned out_of_warp(unsigned shared) {
    return shared + OUT_AT + threadIdx.x / 32 * OUT_BYTES;
}

/* Chunk `half` of 8 columns of a position in the output buffer, without bank conflicts. */
DEVICE unsigned out_at(unsigned out, int position, int half) {
    return out + position * OUT_COLUMNS * 2 + ((half ^ (position / 4 & 1)) << 4);
}

/* Collect 16 columns of TILE_UNIT positions, of which a lane has the pairs that the tensor cores
 * gave it: rows of weights become columns. */
DEVICE void put_unit(unsigned out, const unsigned pairs[4]) {
    const int lane = threadIdx.x % 32;
    __syncwarp();
    stmatrix_x4_trans(out_at(out, lane / 16 * 8 + lane % 8, lane / 8 % 2), pairs);
    __syncwarp();
}

/* A lane's share of them: 8 columns of the position lane / 2. */
DEVICE uint4 take_chunk(unsigned out) {
    uint4 x;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(out_at(out, threadIdx.x % 32 / 2, threadIdx.x % 2))
                 : "memory");
    return x;
}

#endif
