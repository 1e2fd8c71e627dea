/* moe_cuda_estimate.c: predicts the time of a layer of experts on a GPU, by row, to select
 * one. */
#include <math.h>

#include "moe/cuda/moe_cuda.h"
#include "moe/moe.h"

/* The expected number of local experts that randomly routed tokens reach. */
static double experts_reached(const att_moe_problem *p) {
    const double share = (double)p->experts_per_token / (double)p->experts;
    return (double)p->local_experts * (1.0 - pow(1.0 - share, (double)p->tokens));
}

/* Bytes of weights per microsecond on an H200, fitted to the times of the group `experts`
 * (docs/moe-speed.md): from memory, once, and through the tensor cores, once per tile of
 * positions. Other GPUs have proportional rates. */
typedef struct rates {
    double memory, tiles;
} rates;

/* The products of few tokens: weights are read once per tile; an item costs a little by itself,
 * and so does a token, which all warps read. */
static double few_products(const att_moe_problem *p, double reached, double bytes,
                           double tiles) {
    const double memory = 4.5e6, item = 2e-4, token = 0.8, share = 0.003;
    const double items = reached * tiles * ((double)p->inner + (double)p->hidden / 2.0);
    const double others = (double)(p->tokens - 1);
    return bytes * tiles / memory * (1.0 + share * others) + items * item + others * token;
}

/* The products of every GPU: weights are read from memory, and by the tensor cores once per
 * tile. */
static double tiled_products(const att_kernel_row *row, double bytes, double tiles) {
    const bool small = row->cuda->role == ATT_ROLE_SMALL;
    const rates r = small ? (rates){3.8e6, 5.0e6} : (rates){3.4e6, 3.8e6};
    return fmax(bytes / r.memory, bytes * tiles / r.tiles);
}

/* Hopper's: small tiles read weights from the cache once more for every further tile. Large ones
 * take the time of memory and a little per position, or the time of the tensor cores, in which
 * a byte of weights is an operation per position. */
static double hopper_products(const att_kernel_row *row, double bytes, double positions,
                              double tiles) {
    const double waits = 32.0, per_position = 1.59e9, tensor = 7e8, rounding = 8.0;
    const rates r = row->cuda->tile_m <= 32   ? (rates){4.5e6, 1.1e7}
                    : row->cuda->tile_m <= 64 ? (rates){4.48e6, 8.5e6}
                                              : (rates){4.43e6, 0.0};
    if (r.tiles > 0.0)
        return bytes / r.memory + bytes * (tiles - 1.0) / r.tiles;
    return fmax(bytes / r.memory + bytes * fmax(positions - waits, 0.0) / per_position,
                bytes * (positions + rounding) / tensor);
}

/* The kernels of a run, each of which waits for the one before it. */
static double launches(const att_kernel_row *row) {
    const double one = 2.5;
    return one * (att_moe_is_few(row) ? 2.0 : 4.0);
}

/* Routing and the ends of the products. On Hopper the last item of a block takes time by itself:
 * 64 columns of depth after the other; that of large tiles more. */
static double ends(const att_kernel_row *row, const att_moe_problem *p) {
    if (att_moe_is_few(row))
        return 3.0;
    if (!att_moe_is_hopper(row))
        return 15.0;
    return 9.0 + 0.1 * (double)(p->hidden + p->inner) / 64.0 + 0.02 * row->cuda->tile_m;
}

double att_moe_gpu_estimate(const att_kernel_row *row, const att_limits *limits,
                            const void *problem) {
    const att_moe_problem *p = problem;
    (void)limits;
    const double reached = experts_reached(p);
    if (reached <= 0.0)
        return launches(row);
    const double slots = (double)p->tokens * (double)p->experts_per_token *
                         (double)p->local_experts / (double)p->experts;
    /* Per expert; the last tile is half full on average. */
    const double positions = slots / reached;
    const double tiles = fmax(1.0, positions / row->cuda->tile_m + 0.5);
    const double bytes = (att_moe_is_gated(p) ? 3.0 : 2.0) * (double)p->hidden *
                         (double)p->inner * reached * sizeof(uint16_t);
    double products = tiled_products(row, bytes, tiles);
    if (att_moe_is_few(row))
        products = few_products(p, reached, bytes, tiles);
    else if (att_moe_is_hopper(row))
        products = hopper_products(row, bytes, positions, tiles);
    return launches(row) + ends(row, p) + products;
}
