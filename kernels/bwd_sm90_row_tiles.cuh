/* bwd_sm90_row_tiles.cuh: tiles of rows whose sums of dQ become d_q, and when these sums are
 * complete.
 *
 * Tiles are counted over (batch entry, query head) pairs, the last rows of a pair first:
 * roughly the order in which their sums become complete. */
#ifndef ATT_BWD_SM90_ROW_TILES_CUH
#define ATT_BWD_SM90_ROW_TILES_CUH

#include "kernels/bwd_sm90_work.cuh"
#include "kernels/semaphore.cuh"

typedef struct row_tile {
    sequence s;
    int head, tile, rows; /* rows <= 0: there are none */
} row_tile;

DEVICE int row_tile_count(const att_bwd_params *p) {
    return p->fwd.batch * p->fwd.heads_q * p->row_tiles;
}

DEVICE row_tile row_tile_of(const att_bwd_params *p, int number) {
    row_tile t;
    const int pair = number / p->row_tiles, batch = (int)divide(pair, &p->fwd.by_heads_q);
    t.s = sequence_of(&p->fwd, batch);
    t.head = pair - batch * p->fwd.heads_q;
    t.tile = p->row_tiles - 1 - (number - pair * p->row_tiles);
    t.rows = min(TILE_M, t.s.len_q - t.tile * TILE_M);
    return t;
}

/* The number of key tiles in [first, end) that belong to a set. */
DEVICE int tiles_in_set(int set, int sets, int first, int end) {
    const int ahead = set - first % sets, begin = first + (ahead < 0 ? ahead + sets : ahead);
    return begin < end ? (end - begin + sets - 1) / sets : 0;
}

/* The index of the counter and the sum of set 0; those of the other sets follow. */
DEVICE long long first_sum(const att_bwd_params *p, const row_tile *t) {
    return tile_number(p, &t->s, t->head, t->tile) * p->turn_count;
}

/* Wait until all key tiles have been added. Called by one thread. */
DEVICE void wait_for_sums(const att_bwd_params *p, const row_tile *t) {
    const int first = first_tile_of(&p->fwd, &t->s, t->tile),
              end = end_tile_of(&p->fwd, &t->s, t->tile);
    const unsigned *counters = p->turns + first_sum(p, t);
    const int sets = p->turn_count, begun = first % sets;
#pragma unroll 1
    for (int n = 0; n < min(sets, end - first); n++) { /* the set that has key tile first + n */
        const int set = begun + n < sets ? begun + n : begun + n - sets;
        semaphore_wait(counters + set, (unsigned)(end - first - n + sets - 1) / (unsigned)sets);
    }
}

#endif
