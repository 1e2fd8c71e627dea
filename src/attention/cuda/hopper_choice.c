/* hopper_choice.c: predicts the time of a problem with the tiles of a Hopper row.
 *
 * A tile's time is that of its keys plus that of switching to it; blocks process their tiles in
 * rounds. Large tiles use the tensor cores best. If they leave SMs idle in the last round, or
 * in the only one, smaller ones finish sooner. */
#include "attention/cuda/hopper_choice.h"

#include <math.h>

#include "attention/cuda/band.h"
#include "attention/cuda/cuda_families.h"
#include "attention/cuda/decode_tiling.h"
#include "attention/cuda/hopper.h"
#include "attention/cuda/hopper_parts.h"
#include "base/checked.h"

enum { SWIZZLE_ROWS = 8, WARPGROUP_ROWS = 64 };

/* Relative time per key if one warpgroup has rows and the others skip the tile. */
static const double alone = 0.8;

/* Parts of unequal tiles, more than one per block, do not end together. */
static const double ragged = 1.15;

int att_cuda_hopper_copy_rows(int tile_n, const att_problem *p) {
    if (!(p->features & ATT_PAGED))
        return tile_n;
    int64_t rows = tile_n, rest = p->page_size;
    while (rest > 0) { /* the greatest common divisor */
        const int64_t next = rows % rest;
        rows = rest;
        rest = next;
    }
    return rows % SWIZZLE_ROWS == 0 ? (int)rows : 0;
}

static bool is_uneven(const att_problem *p) {
    return att_cuda_band_hides(p);
}

/* Nanoseconds per key. With pages, copies of few rows are bound by the time to start them: 5.4
 * ns per copy and warp of the block, measured on an H200 with copies of 16 rows. */
static double key_ns(const att_cuda_kernel *kernel, const att_row_times *t,
                     const att_problem *p) {
    enum { PANEL = 64 /* columns per copy */ };
    const double each = 5.4 * kernel->warps;
    const int rows = att_cuda_hopper_copy_rows(kernel->tile_n, p);
    if (!(p->features & ATT_PAGED) || rows == 0)
        return t->key;
    const int64_t panels = att_ceil_div(p->d_qk, PANEL) + att_ceil_div(p->d_v, PANEL);
    return fmax(t->key, each * (double)panels / rows);
}

double att_cuda_hopper_time(const att_cuda_kernel *kernel, const att_row_times *t, int sms,
                            const att_problem *p, int parts) {
    const int64_t m = kernel->tile_m >> att_cuda_hopper_pack(kernel, p), n = kernel->tile_n;
    const double row_blocks = (double)att_ceil_div(p->seq_q, m);
    const double count = (double)att_cuda_hopper_tiles(kernel, p) * parts;
    const double tile = t->tile + (is_uneven(p) ? t->cut : 0);
    const bool half =
        kernel->role != ATT_ROLE_SMALL && p->seq_q * (kernel->tile_m / m) <= WARPGROUP_ROWS;
    const double plain = key_ns(kernel, t, p), key = half ? plain * alone : plain;
    /* Keys come in whole tiles. */
    const double each =
        tile + key * (double)(n * att_ceil_div(att_ceil_div(p->seq_k, n), parts));
    const double rounds = ceil(count / sms);
    if (!is_uneven(p))
        return t->start + rounds * each;
    /* Each row block sees fewer keys than the next one, by its number of rows; keys come in
     * whole tiles. */
    const double middle = (double)p->seq_k / 2.0, fewer = (double)m * (row_blocks - 1.0) / 2.0;
    const double keys =
        (middle > fewer ? (double)p->seq_k - fewer : middle) / parts + (double)n / 2.0;
    const double each_sm = count / sms;
    /* The longest tiles come first. Two per block balance well, and so do many; a third of few
     * does not. */
    const double uneven = each_sm > 2.5 ? 1.0 + 2.3 / (each_sm * each_sm * each_sm) : 1.0;
    const double start_again = kernel->role == ATT_ROLE_SMALL && each_sm > 1.0 ? 1.4 : 1.0;
    const double apart = parts > 1 && each_sm > 1.0 ? ragged : 1.0;
    const double mean = each_sm * (tile * start_again + key * keys) * uneven * apart;
    return t->start + (mean > each ? mean : each);
}

double att_cuda_hopper_estimate(const att_kernel_row *row, const att_limits *limits,
                                const void *problem) {
    const att_problem *p = problem;
    const int sms = limits->gpu->sms;
    if (row->family == &att_family_fwd_decode_shares)
        return att_cuda_shares_estimate(row->cuda, p, sms);
    if (row->cuda->role == ATT_ROLE_DECODE)
        return row->family == &att_family_fwd_decode_sm90
                   ? att_cuda_decode_estimate(row->cuda, p, sms)
                   : att_cuda_decode_blocks_estimate(row->cuda, p, sms);
    if (row->times.tile == 0)
        return -1.0;
    /* Reading the keys takes most of the time, which the model of larger tiles does not count. */
    if (att_cuda_few_rows(p))
        return INFINITY;
    if (p->d_qk < row->times.least)
        return INFINITY;
    return row->cuda->role == ATT_ROLE_SPLIT
               ? att_cuda_hopper_parts(row, sms, p).ns
               : att_cuda_hopper_time(row->cuda, &row->times, sms, p, 1);
}
