/* bwd_sm90_work.cuh: the items of work, the order in which they are taken, and the row blocks
 * that each covers.
 *
 * Units are grouped into sections. A section takes the first key tile of every unit, then the
 * second, and so on. A key tile walks its row blocks from the last to the first. The sum of dQ
 * of a row block takes the key tiles in ascending order, so an item waits only for items with
 * lower numbers. Blocks have already taken those, so there is no deadlock, however many blocks
 * run at once. Between two key tiles of a unit come those of the section's other units, so the
 * key tile that is waited for is already some row blocks ahead. */
#ifndef ATT_BWD_SM90_WORK_CUH
#define ATT_BWD_SM90_WORK_CUH

#include "kernels/bwd_rows.cuh"
#include "kernels/bwd_sm90_params.h"
#include "kernels/switches_sm90.cuh"

/* The kernel is bwd_sm90_wide above 128 columns, and bwd_sm90 up to there. */
#define IS_WIDE (D_QK > 128)

/* The key tiles [first, end) that rows of a row block see; none if end <= first. Both ends are
 * non-decreasing in the block number. */
DEVICE int first_tile_of(const att_fwd_params *f, const sequence *s, int row_block) {
    return USE_TILE_SKIP ? visible_lo(f, s, row_block * TILE_M) / TILE_N : 0;
}

DEVICE int end_tile_of(const att_fwd_params *f, const sequence *s, int row_block) {
    const int last_row = min((row_block + 1) * TILE_M, s->len_q) - 1;
    const int keys = USE_TILE_SKIP ? max(visible_hi(f, s, last_row), 0) : s->len_k;
    return (keys + TILE_N - 1) / TILE_N;
}

/* The first row that sees keys of a key tile; it may lie past the last row. */
DEVICE int first_row_of(const att_fwd_params *f, const sequence *s, int key0) {
    return USE_TILE_SKIP && f->window_right >= 0 ? max(0, key0 - s->shift - f->window_right)
                                                 : 0;
}

/* The row blocks [first, end) that see keys of a key tile. They must agree with the key tiles
 * above: a sum is complete once the tiles that its rows see have been added. A tile whose first
 * row lies past the last one therefore has no blocks, even if the last block reaches that far. */
DEVICE int first_block_of(const att_fwd_params *f, const sequence *s, int key0) {
    return first_row_of(f, s, key0) / TILE_M;
}

DEVICE int end_block_of(const att_fwd_params *f, const sequence *s, int key0) {
    const int rows = USE_TILE_SKIP && f->window_left >= 0
                         ? min(s->len_q, key0 + TILE_N - s->shift + f->window_left)
                         : s->len_q;
    const bool is_seen = key0 < s->len_k && first_row_of(f, s, key0) < s->len_q;
    return is_seen ? (max(rows, 0) + TILE_M - 1) / TILE_M : 0;
}

/* The row blocks [first, end) among those in which every row sees every key of the tile. */
DEVICE int clear_first_of(const att_fwd_params *f, const sequence *s, int key0) {
    const int row = f->window_right < 0 ? 0 : key0 + TILE_N - 1 - s->shift - f->window_right;
    return (max(row, 0) + TILE_M - 1) / TILE_M;
}

DEVICE int clear_end_of(const att_fwd_params *f, const sequence *s, int key0) {
    const int rows =
        f->window_left < 0 ? s->len_q : min(s->len_q, key0 - s->shift + f->window_left + 1);
    return USE_CLEAR_TILES && key0 + TILE_N <= s->len_k ? max(rows, 0) / TILE_M : 0;
}

/* One key tile of a unit. */
typedef struct work_item {
    sequence s;
    int kv_head, tile;
    int first_block, end_block; /* row blocks */
    int clear_first, clear_end;
} work_item;

DEVICE work_item item_of(const att_bwd_sm90_params *p, int number) {
    work_item w;
    const att_fwd_params *f = &p->bwd.fwd;
    const int most = p->bwd.section, a_section = most * p->bwd.key_tiles,
              section = number / a_section;
    const int in_section = number - section * a_section,
              units = min(most, p->units - section * most);
    w.tile = in_section / units;
    const int unit = section * most + in_section - w.tile * units,
              batch = (int)divide(unit, &f->by_heads_kv);
    w.s = sequence_of(f, batch);
    w.kv_head = unit - batch * f->heads_kv;
    w.first_block = first_block_of(f, &w.s, w.tile * TILE_N);
    w.end_block = end_block_of(f, &w.s, w.tile * TILE_N);
    w.clear_first = clear_first_of(f, &w.s, w.tile * TILE_N);
    w.clear_end = clear_end_of(f, &w.s, w.tile * TILE_N);
    return w;
}

/* att_bwd_params.next_work: the next item, and the next tile of rows to finish. */
enum { NEXT_ITEM, NEXT_ROWS };

/* One flag per 16 keys of every key tile: 1 if their gradients must be recomputed. Stored in
 * the workspace of the ALiBi slope sums. */
enum { NOTED_KEYS = 16 };

DEVICE int *lost_keys(const att_bwd_params *p, int batch, int kv_head, int tile, int part) {
    const long long item = ((long long)batch * p->fwd.heads_kv + kv_head) * p->key_tiles + tile;
    return (int *)p->alibi_sums + item * (TILE_N / NOTED_KEYS) + part;
}

/* The number of key tiles that are added to the same sum before key tile `tile` of its unit. */
DEVICE int turn_of(const att_bwd_sm90_params *p, const sequence *s, int row_block, int tile) {
    return (tile - first_tile_of(&p->bwd.fwd, s, row_block)) / p->bwd.turn_count;
}

#endif
