/* moe_sm90_items.cuh: the items of Hopper's products of experts, and how a block takes them.
 *
 * An item is a tile of an expert's positions times a step of the columns of its weights. Items
 * are taken from a counter, in order, by whichever block is free: tiles that read the same
 * weights are then multiplied at about the same time, and the weights are read from memory
 * once. (If every block had fixed items, blocks would drift apart.)
 *
 * An expert's positions are cut into tiles of equal size, because a product takes as long as
 * its positions, in multiples of TILE_UNIT. */
#ifndef ATT_MOE_SM90_ITEMS_CUH
#define ATT_MOE_SM90_ITEMS_CUH

#include "kernels/moe_work.cuh"

#define TILE_UNIT 16

/* The lookup of the item after the one being loaded. Each load that the next one depends on is
 * started several slots of the ring before its use, since memory under load takes microseconds
 * to answer. The loads bypass L1, which may hold values of an earlier run if the previous
 * kernel has not ended yet. */
typedef struct scout {
    int *counter;
    int steps, tiles; /* steps of columns; tiles of positions, of all experts */
    int known;        /* SCOUT_... */
    int item, expert, first_tile, end_tile, first, end;
} scout;

/* What is known of the next item: nothing; its number was asked for; its expert as well;
 * everything. */
enum { SCOUT_NOTHING, SCOUT_NUMBER, SCOUT_EXPERT, SCOUT_ALL };

DEVICE scout scout_begin(const att_moe_params *p, int *counter, int steps) {
    const scout s = {counter, steps, __ldcg(p->tile_starts + p->local_experts), SCOUT_NOTHING};
    return s;
}

/* Is there an item of this number? */
DEVICE bool scout_exists(const scout *s) {
    return s->item / s->steps < s->tiles;
}

/* Take the next number. Called by one thread. */
DEVICE void scout_ask(scout *s) {
    s->item = atomicAdd(s->counter, 1);
}

/* Look up the item's expert, then where it begins. Past the last item there is nothing to look
 * up. */
DEVICE void scout_expert(scout *s, const att_moe_params *p) {
    if (scout_exists(s))
        s->expert = __ldcg(p->tile_experts + s->item / s->steps);
    s->known = SCOUT_EXPERT;
}

DEVICE void scout_place(scout *s, const att_moe_params *p) {
    if (scout_exists(s)) {
        s->first_tile = __ldcg(p->tile_starts + s->expert);
        s->end_tile = __ldcg(p->tile_starts + s->expert + 1);
        s->first = __ldcg(p->starts + s->expert);
        s->end = __ldcg(p->starts + s->expert + 1);
    }
    s->known = SCOUT_ALL;
}

/* The item, once everything is known. One that does not exist has no positions. */
DEVICE tile_work scout_work(const scout *s) {
    tile_work w = {0, 0, 0, 0};
    if (!scout_exists(s))
        return w;
    const int tiles = s->end_tile - s->first_tile, all = s->end - s->first;
    const int size = ((all + tiles - 1) / tiles + TILE_UNIT - 1) / TILE_UNIT * TILE_UNIT;
    const int from = tile_of(s->item - s->first_tile * s->steps, tiles, s->steps, &w.step) * size;
    w.expert = s->expert;
    w.first = s->first + from;
    w.count = min(size, all - from);
    return w;
}

#endif
