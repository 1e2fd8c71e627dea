/* moe_work.cuh: items of work: a tile of an expert's positions times a step of the columns of
 * its weights. */
#ifndef ATT_MOE_WORK_CUH
#define ATT_MOE_WORK_CUH

#include "kernels/config.cuh"
#include "kernels/moe_params.h"

/* A tile of positions: its expert, counted from first_expert; its first position and their
 * number; the step of columns. */
typedef struct tile_work {
    int expert, first, count, step;
} tile_work;

/* Tiles of an expert that use the same columns are consecutive, so that these weights are read
 * once; at most this many, so that their rows stay in the cache until all columns are done. */
#define TILES_TOGETHER 16

/* The own-th item of an expert: its tile, and its step of columns. */
DEVICE int tile_of(int own, int tiles, int steps, int *step) {
    const int before = own / (TILES_TOGETHER * steps) * TILES_TOGETHER, here = min(TILES_TOGETHER, tiles - before);
    own -= before * steps;
    *step = own / here;
    return before + own % here;
}

/* The item-th of all tiles times `steps`. Returns false if it does not exist. */
DEVICE bool find_work(tile_work *w, const att_moe_params *p, int steps, int item) {
    const int tile = item / steps;
    if (tile >= p->tile_starts[p->local_experts])
        return false;
    w->expert = p->tile_experts[tile];
    const int first_tile = p->tile_starts[w->expert], tiles = p->tile_starts[w->expert + 1] - first_tile;
    w->first = p->starts[w->expert] + tile_of(item - first_tile * steps, tiles, steps, &w->step) * TILE_M;
    w->count = min(TILE_M, p->starts[w->expert + 1] - w->first);
    return true;
}

#endif
