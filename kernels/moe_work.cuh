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

/* The items of a persistent block, looked up ahead: each load that the next lookup depends on
 * is started several steps before its use, since memory under load takes microseconds to
 * answer. The loads bypass L1, which may hold values of an earlier run if the previous kernel
 * has not ended yet. */
typedef struct scout {
    int item, tiles; /* the next item; the number of tiles */
    int known;       /* what is known of it: nothing, its expert, or everything */
    int expert, first_tile, end_tile, first, end;
} scout;

enum { SCOUT_NOTHING, SCOUT_EXPERT, SCOUT_ALL };

DEVICE scout scout_begin(const att_moe_params *p) {
    const scout s = {(int)blockIdx.x, __ldcg(p->tile_starts + p->local_experts), SCOUT_NOTHING};
    return s;
}

/* Start the next load, if possible. */
DEVICE void scout_ahead(scout *s, const att_moe_params *p, int steps) {
    if (s->known == SCOUT_NOTHING && s->item / steps < s->tiles) {
        s->expert = __ldcg(p->tile_experts + s->item / steps);
        s->known = SCOUT_EXPERT;
    } else if (s->known == SCOUT_EXPERT) {
        s->first_tile = __ldcg(p->tile_starts + s->expert);
        s->end_tile = __ldcg(p->tile_starts + s->expert + 1);
        s->first = __ldcg(p->starts + s->expert);
        s->end = __ldcg(p->starts + s->expert + 1);
        s->known = SCOUT_ALL;
    }
}

/* The item, once everything is known. */
DEVICE tile_work scout_work(const scout *s, int steps) {
    int step;
    const int tile = tile_of(s->item - s->first_tile * steps, s->end_tile - s->first_tile, steps, &step);
    const int first = s->first + tile * TILE_M;
    const tile_work w = {s->expert, first, min(TILE_M, s->end - first), step};
    return w;
}

/* Take the next item of the block and start looking for the one after it. Returns false if
 * there is none. */
DEVICE bool scout_take(scout *s, const att_moe_params *p, int steps, tile_work *w) {
    if (s->item / steps >= s->tiles)
        return false;
    while (s->known != SCOUT_ALL)
        scout_ahead(s, p, steps);
    *w = scout_work(s, steps);
    s->item += gridDim.x;
    s->known = SCOUT_NOTHING;
    return true;
}

#endif
