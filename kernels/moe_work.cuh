/* moe_work.cuh: what there is to multiply: tiles of an expert's positions, times a step of the columns of its weights. */
#ifndef ATT_MOE_WORK_CUH
#define ATT_MOE_WORK_CUH

#include "kernels/config.cuh"
#include "kernels/moe_params.h"

/* A tile of positions: its expert, counted from first_expert; its first position and how many it has; the step of columns. */
typedef struct tile_work {
    int expert, first, count, step;
} tile_work;

/* Tiles of an expert that share columns follow each other, so that these weights are read once; at most this many, so that their rows stay
 * in the cache until all columns are done. */
#define TILES_TOGETHER 16

/* The own-th of an expert's items: its tile, and its step of columns. */
DEVICE int tile_of(int own, int tiles, int steps, int *step) {
    const int before = own / (TILES_TOGETHER * steps) * TILES_TOGETHER, here = min(TILES_TOGETHER, tiles - before);
    own -= before * steps;
    *step = own / here;
    return before + own % here;
}

/* The item-th of all tiles times `steps`; false where there is none. */
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

/* The items of a block that stays, looked up ahead: each load that the next one waits for is started steps before it is used, since under
 * load memory takes microseconds to answer. They go past the first cache, which may have them of an earlier run where the kernel before
 * this one has not ended yet. */
typedef struct scout {
    int item, tiles; /* the next item; tiles there are */
    int known;       /* how much is known of it: nothing, its expert, where that begins */
    int expert, first_tile, end_tile, first, end;
} scout;

enum { SCOUT_NOTHING, SCOUT_EXPERT, SCOUT_ALL };

DEVICE scout scout_begin(const att_moe_params *p) {
    const scout s = {(int)blockIdx.x, __ldcg(p->tile_starts + p->local_experts), SCOUT_NOTHING};
    return s;
}

/* Start what can be started now. */
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

/* The item, of which all is known. */
DEVICE tile_work scout_work(const scout *s, int steps) {
    int step;
    const int tile = tile_of(s->item - s->first_tile * steps, s->end_tile - s->first_tile, steps, &step);
    const int first = s->first + tile * TILE_M;
    const tile_work w = {s->expert, first, min(TILE_M, s->end - first), step};
    return w;
}

/* The next item of the block, and the one behind it is sought from here on; false where there is none. */
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
