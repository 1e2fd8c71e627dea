/* backward_block_bytes.c: shared memory per block of kernels/bwd_*.cu. */
#include <stdbool.h>
#include <stddef.h>

#include "cuda/shape.h"

/* Bytes per row of `d` 16-bit elements in a swizzled tile: SWIZZLE_PITCH of
 * kernels/swizzle.cuh. */
static int pitch(int d) {
    return (d + 63) / 64 * 128;
}

/* K and V; `stages` tiles of Q and dO with the log-sum and delta of every row; dS, twice unless
 * a barrier separates its writers and readers; P, if two warps share keys; the block's work. */
static int keys_and_row_tiles(const att_cuda_kernel *k) {
    enum { TERMS = 8, WORK = 64 };
    const int both = pitch(k->d_qk) + pitch(k->d_v), scores = k->tile_n * k->tile_m * 2;
    const bool shared = k->d_qk + k->d_v > 128 || k->tile_n / 16 < k->warps;
    return k->tile_n * both + k->stages * k->tile_m * (both + TERMS) +
           (k->stages == 1 ? 1 : 2) * scores + (shared ? scores : 0) + WORK;
}

/* bwd_sm90: K and V; rings of Q, dO and the terms of rows; dS twice; dQ in float32, twice;
 * barriers and records. */
static int hopper_tiles(const att_cuda_kernel *k) {
    enum { TERMS = 8, SLACK = 512 };
    const int qk = pitch(k->d_qk), both = qk + pitch(k->d_v);
    return k->tile_n * both + k->stages * k->tile_m * (both + TERMS) +
           2 * k->tile_m * pitch(k->tile_n) + 4 * k->tile_m * qk + SLACK;
}

/* bwd_sm90_wide: K and V; a ring of Q and the terms of rows, one of dO; P and dS; rings of half
 * panels of dQ in float32 for two warpgroups; barriers and records. Rings are as long as
 * fits. */
static int wide_hopper_tiles(const att_cuda_kernel *k) {
    enum { TERMS = 8, SLACK = 512, HALF_PANEL = 32 };
    const int qk = pitch(k->d_qk), v = pitch(k->d_v);
    const bool is_full = k->tile_n > 64 || qk + v > 6 * 128;
    const int do_stages = is_full ? 1 : 2, dq_places = is_full ? 6 : 8;
    return k->tile_n * (qk + v) + k->stages * k->tile_m * (qk + TERMS) +
           do_stages * k->tile_m * v + 2 * k->tile_m * pitch(k->tile_n) +
           dq_places * k->tile_m * HALF_PANEL * (int)sizeof(float) + SLACK;
}

/* O and dO, and one sum per warp. */
static int o_and_its_gradient(const att_cuda_kernel *k) {
    return 2 * k->tile_m * pitch(k->d_v) + k->warps * (int)sizeof(float);
}

/* K, V, Q and dO, and one sum per row and warp. */
static int one_tile_of_scores(const att_cuda_kernel *k) {
    return (k->tile_m + k->tile_n) * (pitch(k->d_qk) + pitch(k->d_v)) +
           k->warps * k->tile_m * (int)sizeof(float);
}

const att_cuda_block att_backward_blocks[] = {
    {"bwd_sm80", keys_and_row_tiles},     {"bwd_sm90", hopper_tiles},
    {"bwd_sm90_wide", wide_hopper_tiles}, {"bwd_delta", o_and_its_gradient},
    {"bwd_bias", one_tile_of_scores},     {NULL, NULL},
};
