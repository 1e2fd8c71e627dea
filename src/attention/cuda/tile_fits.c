/* tile_fits.c: the tiles that a user's row may request. */
#include "attention/cuda/tile_fits.h"

#include <stdarg.h>
#include <stdio.h>

enum { WARPS_MOST = 8, STAGES_MOST = 8 };

__attribute__((format(printf, 3, 4))) static bool unfit(char *why, size_t n, const char *format,
                                                        ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why, n, format, list);
    va_end(list);
    return false;
}

/* Warps side by side, 16 rows at a time. */
static bool fits_blocks(int m, int n_keys, int stages, int warps, char *why, size_t n) {
    if (warps < 1 || warps > WARPS_MOST || (warps & (warps - 1)))
        return unfit(why, n, "%d warps: expected 1, 2, 4 or 8", warps);
    if (stages < 1 || stages > STAGES_MOST)
        return unfit(why, n, "%d stages: expected 1 to %d", stages, STAGES_MOST);
    if (m < 1 || m % (16 * warps) || m > 256 * warps)
        return unfit(why, n,
                     "m%d is not a multiple of 16 rows for each of %d warps, 256 at most", m,
                     warps);
    if (n_keys < 1 || n_keys % 16 || n_keys % (4 * warps) || n_keys > 1024)
        return unfit(why, n,
                     "n%d is not a multiple of 16 and of 4 for each of %d warps, 1024 at most",
                     n_keys, warps);
    return true;
}

/* The same, with one tile in flight and two warps or more. */
static bool fits_f32(int m, int n_keys, int stages, int warps, char *why, size_t n) {
    if (stages != 1)
        return unfit(why, n, "%d stages: it takes 1", stages);
    if (warps == 1)
        return unfit(why, n, "1 warp: it takes 2, 4 or 8");
    return fits_blocks(m, n_keys, stages, warps, why, n);
}

/* For warpgroups, whose masks have one bit per column of a thread. */
static bool fits_keys(int n_keys, char *why, size_t n) {
    return (n_keys >= 16 && n_keys <= 128 && n_keys % 16 == 0) ||
           unfit(why, n, "n%d is not a multiple of 16, 128 at most", n_keys);
}

/* One warpgroup per 64 rows, and one that feeds them. */
static bool fits_hopper(int m, int n_keys, int stages, int warps, char *why, size_t n) {
    if (m < 64 || m > 256 || m % 64)
        return unfit(why, n, "m%d: expected 64, 128, 192 or 256 rows", m);
    if (warps != 4 + m / 16)
        return unfit(why, n, "%d warps: m%d has %d, 4 that load and 4 for every 64 rows", warps,
                     m, 4 + m / 16);
    if (stages < 2 || stages > STAGES_MOST)
        return unfit(why, n, "%d stages: expected 2 to %d", stages, STAGES_MOST);
    return fits_keys(n_keys, why, n);
}

/* Warpgroups that divide the keys of 64 rows. With twice 64 rows, those of a share process each
 * tile together. */
static bool fits_small(int m, int n_keys, int stages, int warps, char *why, size_t n) {
    const int stages_least = m == 64 ? 1 : 3;
    if (m != 64 && m != 128)
        return unfit(why, n, "m%d: expected 64 or 128 rows", m);
    if (warps < 4 || warps > 16 || warps % (m / 16))
        return unfit(why, n, "%d warps: expected %s", warps,
                     m == 64 ? "4, 8, 12 or 16" : "8 or 16 for m128");
    if (stages < stages_least || stages > STAGES_MOST)
        return unfit(why, n, "%d stages: expected %d to %d", stages, stages_least, STAGES_MOST);
    return fits_keys(n_keys, why, n);
}

bool att_cuda_tile_fits_blocks(const int tile[4], char *why, size_t n) {
    return fits_blocks(tile[0], tile[1], tile[2], tile[3], why, n);
}

bool att_cuda_tile_fits_f32(const int tile[4], char *why, size_t n) {
    return fits_f32(tile[0], tile[1], tile[2], tile[3], why, n);
}

bool att_cuda_tile_fits_hopper(const int tile[4], char *why, size_t n) {
    return fits_hopper(tile[0], tile[1], tile[2], tile[3], why, n);
}

bool att_cuda_tile_fits_small(const int tile[4], char *why, size_t n) {
    return fits_small(tile[0], tile[1], tile[2], tile[3], why, n);
}
