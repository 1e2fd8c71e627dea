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

static rates rates_of(const att_kernel_row *row) {
    const bool small = row->cuda->role == ATT_ROLE_SMALL;
    if (att_moe_is_hopper(row))
        return small ? (rates){4.2e6, 5.6e6} : (rates){4.05e6, 4.8e6};
    return small ? (rates){3.8e6, 5.0e6} : (rates){3.4e6, 3.8e6};
}

/* The products of few tokens: weights are read once per tile; an item costs a little by itself,
 * and so does a token, which all warps read. */
static double few_products(const att_moe_problem *p, double reached, double bytes,
                           double tiles) {
    const double memory = 4.5e6, item = 2e-4, token = 0.8, share = 0.003;
    const double items = reached * tiles * ((double)p->inner + (double)p->hidden / 2.0);
    const double others = (double)(p->tokens - 1);
    return bytes * tiles / memory * (1.0 + share * others) + items * item + others * token;
}

/* The other products: weights are read from memory, and by the tensor cores once per tile. */
static double tiled_products(const att_kernel_row *row, double bytes, double tiles) {
    const rates r = rates_of(row);
    return fmax(bytes / r.memory, bytes * tiles / r.tiles);
}

/* The kernels of a run, each of which waits for the one before it. */
static double launches(const att_kernel_row *row) {
    const double one = 2.5;
    return one * (att_moe_is_few(row) ? 2.0 : 4.0);
}

/* Routing and the ends of the products. On Hopper the last item of a block takes time by itself:
 * 64 columns of depth after the other. */
static double ends(const att_kernel_row *row, const att_moe_problem *p) {
    if (att_moe_is_few(row))
        return 3.0;
    return att_moe_is_hopper(row) ? 8.0 + 0.15 * (double)(p->hidden + p->inner) / 64.0 : 15.0;
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
    /* Per expert; the last one is half full on average. */
    const double tiles = fmax(1.0, slots / reached / row->cuda->tile_m + 0.5);
    const double bytes = (att_moe_is_gated(p) ? 3.0 : 2.0) * (double)p->hidden *
                         (double)p->inner * reached * sizeof(uint16_t);
    return launches(row) + ends(row, p) +
           (att_moe_is_few(row) ? few_products(p, reached, bytes, tiles)
                                : tiled_products(row, bytes, tiles));
}
