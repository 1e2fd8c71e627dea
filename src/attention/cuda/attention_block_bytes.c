/* attention_block_bytes.c: shared memory per block of the attention kernels. */
#include <stdbool.h>
#include <stddef.h>

#include "cuda/shape.h"
#include "kernels/fwd_mask_params.h"

/* Bytes per row of `d` 16-bit elements in a swizzled tile: SWIZZLE_PITCH of
 * kernels/swizzle.cuh. */
static int pitch(int d) {
    return (d + 63) / 64 * 128;
}

/* Q, whose buffer O reuses at the end, then `stages` tiles of K, then as many of V. */
static int swizzled_tiles(const att_cuda_kernel *k) {
    const int qk = pitch(k->d_qk), v = pitch(k->d_v);
    return k->tile_m * (qk > v ? qk : v) + k->stages * k->tile_n * (qk + v);
}

/* A ring of `stages` tiles of K and V per warp. */
static int rings_of_warps(const att_cuda_kernel *k) {
    return k->warps * k->stages * k->tile_n * (pitch(k->d_qk) + pitch(k->d_v));
}

/* A ring of `stages` tiles per warp, K and V alternating. */
static int rings(const att_cuda_kernel *k) {
    return k->warps * k->stages * k->tile_n * pitch(k->d_qk);
}

/* The same, an inbox for the parts of rows that the blocks of a cluster send, and its
 * barrier. */
static int rings_and_inbox(const att_cuda_kernel *k) {
    enum { PARTS = 16, BARRIER = 16 };
    const int part = ((k->d_v + 15) / 16 * 16 + 4) * (int)sizeof(float);
    return rings(k) + PARTS * part + BARRIER;
}

/* Q, K, V and the weights as float32, rows of all but V padded by 16 bytes. */
static int padded_floats(const att_cuda_kernel *k) {
    const int qk = k->d_qk + 4, weights = k->tile_n + 4;
    return 4 * (k->tile_m * (qk + weights) + k->tile_n * (qk + k->d_v));
}

/* A tile of K and V as float32, and as two 16-bit terms; Q as two terms, in the same place if
 * it then goes to registers; scales of rows and keys, two numbers per warp, and the block's
 * work. */
static int floats_and_terms(const att_cuda_kernel *k) {
    const int copied = k->tile_n * (k->d_qk + k->d_v) * 4;
    const int terms = 2 * k->tile_n * (pitch(k->d_qk) + pitch(k->d_v));
    const int q = 2 * k->tile_m * pitch(k->d_qk);
    const bool in_registers = k->tile_m / (16 * k->warps) * ((k->d_qk + 15) / 16) <= 8;
    const int scales = 4 * (k->tile_m + k->tile_n + 2 * k->warps), work = 64;
    return copied + terms + (in_registers && q <= terms ? 0 : q) + scales + work;
}

/* `stages` tiles of K and V, and the barriers. If there is room, Q of this tile and of the
 * next, and O beside them; otherwise O in the place of Q; otherwise one Q. With two stages, a
 * third tile of V if there is room. */
static int rings_and_tiles(const att_cuda_kernel *k) {
    enum { MOST = 227 * 1024, BARRIERS = 2048 };
    const int qk = pitch(k->d_qk), v = pitch(k->d_v);
    const int ring = k->stages * k->tile_n * (qk + v) + BARRIERS;
    const int rich = ring + k->tile_m * (2 * qk + v);
    const int poor = ring + k->tile_m * (qk > v ? qk : v), fair = 2 * poor - ring;
    const int all = rich <= MOST ? rich : fair <= MOST ? fair : poor;
    const int further = k->tile_n * v;
    if (k->features & ATT_FEATURE_BIAS) {
        /* Two tiles of bias, in place of a second Q and a third V. */
        const int bias = 2 * k->tile_m * k->tile_n * 2;
        return (rich <= MOST ? ring + k->tile_m * (qk + v) : all) + bias;
    }
    return k->stages == 2 && all + further <= MOST ? all + further : all;
}

/* Q; per share of the keys `stages` tiles of K and V, O in float32 as sent by the others, tops
 * and sums; barriers. A share has one warpgroup per 64 rows. */
static int tiles_of_warpgroups(const att_cuda_kernel *k) {
    enum { WARPGROUP = 4, ROWS = 64, FLOAT = 4, SUMS = 8, BARRIERS = 1024 + 1024 };
    const int shares = k->warps / WARPGROUP / (k->tile_m / ROWS);
    const int qk = pitch(k->d_qk), v = pitch(k->d_v);
    const int each =
        k->stages * k->tile_n * (qk + v) + k->tile_m * k->d_v * FLOAT + k->tile_m * SUMS;
    return k->tile_m * qk + shares * each + BARRIERS;
}

/* One word per warp and tile of keys of a span. */
static int kinds_of_span(const att_cuda_kernel *k) {
    (void)k;
    return 4 * ATT_MASK_SPAN * ATT_MASK_WARPS_MOST;
}

/* Kernels that are not listed use static arrays or no shared memory. */
const att_cuda_block att_attention_blocks[] = {
    {"fwd_sm80", swizzled_tiles},
    {"fwd_sm80_f32", floats_and_terms},
    {"fwd_sm90", rings_and_tiles},
    {"fwd_decode", rings_of_warps},
    {"mma_async", swizzled_tiles},
    {"vector", padded_floats},
    {"fwd_sm90_small", tiles_of_warpgroups},
    {"fwd_decode_sm90", rings_and_inbox},
    {"fwd_decode_shares", rings},
    {"fwd_mask", kinds_of_span},
    {NULL, NULL},
};
