/* moe_block_bytes.c: shared memory per block of kernels/moe_*.cu. That of moe_route and of the
 * products for few tokens depends on the problem (moe_cuda_cut.c). */
#include <stddef.h>

#include "cuda/shape.h"

/* `stages` tiles of both operands, 64 columns deep, and the addresses of `columns` rows of
 * weights and of the tile's rows. */
static int ring(const att_cuda_kernel *k, int columns) {
    enum { DEPTH_BYTES = 128, ADDRESS = 8 };
    return (k->tile_m + columns) * (k->stages * DEPTH_BYTES + ADDRESS);
}

static int gate_and_up(const att_cuda_kernel *k) {
    return ring(k, 2 * k->tile_n);
}

static int down(const att_cuda_kernel *k) {
    return ring(k, k->tile_n);
}

/* Hopper: the ring and its barriers; of each multiplying warpgroup, 16 x 16 results per warp,
 * slot and weight per position; ten items of 16 bytes; two numbers. */
static int hopper(const att_cuda_kernel *k, int columns) {
    enum {
        DEPTH_BYTES = 128,
        BARRIERS = 16,
        OUT = 4 * 512,
        SLOT = 8,
        ITEMS = 160,
        NUMBERS = 8
    };
    return k->stages * ((k->tile_m + columns) * DEPTH_BYTES + BARRIERS) +
           columns / 128 * (OUT + k->tile_m * SLOT) + ITEMS + NUMBERS;
}

static int hopper_gate_and_up(const att_cuda_kernel *k) {
    return hopper(k, 2 * k->tile_n);
}

static int hopper_down(const att_cuda_kernel *k) {
    return hopper(k, k->tile_n);
}

const att_cuda_block att_moe_blocks[] = {
    {"moe_sm80", gate_and_up},
    {"moe_sm80_down", down},
    {"moe_sm90", hopper_gate_and_up},
    {"moe_sm90_down", hopper_down},
    {NULL, NULL},
};
