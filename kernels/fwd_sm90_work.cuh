/* fwd_sm90_work.cuh: the tiles of a problem, and the order in which blocks take them. */
#ifndef ATT_FWD_SM90_WORK_CUH
#define ATT_FWD_SM90_WORK_CUH

#include "kernels/fwd_sequence.cuh"
#include "kernels/fwd_sm90_params.h"
#include "kernels/fwd_sm90_registers.cuh"
#include "kernels/switches_sm90.cuh"

/* The keys of a tile of rows are split into parts, which fwd_combine merges. */
#define SPLITS_KEYS (ROLE == SPLIT)

/* TILE_M rows of a unit. */
typedef struct tile_work {
    sequence s;
    int head;        /* of Q; of K and V if heads are packed */
    int row0, rows;  /* first row, negative if cut short at the top; rows of the whole unit */
    int first, last; /* tiles of keys that some row sees; none: last <= first */
    int turned;      /* the walk over them starts this many tiles before the last one */
    int list;        /* boolean masks: `first` to `last` count the tiles of this list */
    int part;        /* the number of this part of those tiles, if there are several */
} tile_work;

/* The order of the walk over the tiles of keys, from the last to the first; `step` counts it.
 * With ALiBi it starts at the diagonal, where scores are highest, and wraps from the first tile
 * to the last. If it started elsewhere, tops would climb tile after tile. */
DEVICE int key_tile_at(int step, int first, int last, int turned) {
    if (!HAS_ALIBI)
        return step;
    const int tile = step - turned;
    return tile < first ? tile + last - first : tile;
}

/* The parameters of rows with FEATURES. */
DEVICE const att_fwd_sm90_feature_params *features_of(const att_fwd_sm90_params *p) {
    return (const att_fwd_sm90_feature_params *)p;
}

/* The j-th tile of a list (HAS_MASK). */
DEVICE att_fwd_mask_tile listed_tile(const att_fwd_sm90_params *p, int list, int j) {
    const att_fwd_mask *m = &features_of(p)->mask;
    const int2 word = *(const int2 *)(m->tiles + (long long)list * m->key_tiles + j);
    return {word.x, (unsigned)word.y};
}

/* Reduce the work to its own part of the tiles of keys. Parts differ by at most one tile. */
DEVICE void take_part(const att_fwd_params *p, tile_work *w) {
    const int count = max(w->last - w->first, 0), each = (int)divide(count, &p->by_splits), more = count - each * p->splits;
    w->first += w->part * each + min(w->part, more);
    w->last = w->first + each + (w->part < more);
}

/* Sections of units, one after the other. Within a section, the last row blocks of all its
 * units come first: causal masks leave them the most keys, and blocks that run at the same time
 * share K and V in L2. The `last_blocks` row blocks with the fewest keys come after all
 * sections, so that blocks finish together. The parts of a tile are consecutive. */
DEVICE tile_work tile_of(const att_fwd_sm90_params *p, int number) {
    tile_work w;
    const int tile = SPLITS_KEYS ? (int)divide(number, &p->fwd.by_splits) : number;
    w.part = SPLITS_KEYS ? number - tile * p->fwd.splits : 0;
    const int before = p->fwd.row_blocks - p->last_blocks, in_sections = before * p->units;
    const bool is_last = tile >= in_sections;
    const int most = USE_L2_SECTIONS && !is_last ? p->section : p->units, from = is_last ? in_sections : 0;
    const int a_section = (is_last ? p->last_blocks : before) * most, section = (tile - from) / a_section;
    const int in_section = tile - from - section * a_section, units = min(most, p->units - section * most);
    const int turn = in_section / units, unit = section * most + in_section - turn * units;
    const int batch = (int)divide(unit, &p->by_heads);
    w.head = unit - batch * (int)p->by_heads.value;
    w.s = sequence_of(&p->fwd, batch);
    const int block = turn + (is_last ? before : 0);
    const int row_block = USE_LONGEST_FIRST ? p->fwd.row_blocks - 1 - block : block;
    w.row0 = row_block * TILE_M - (USE_CUT_FROM_END || HAS_MASK ? p->top_rows : 0);
    w.rows = w.s.len_q << p->pack;
    if (HAS_MASK) {
        const att_fwd_mask *m = &features_of(p)->mask;
        const int mask = (m->batches > 1 ? batch * m->heads : 0) + (m->heads > 1 ? w.head : 0);
        w.list = mask * m->row_blocks + (m->row_blocks > 1 ? row_block : 0);
        w.first = w.turned = 0;
        w.last = m->counts[w.list];
        return w;
    }
    const int last_row = min(w.row0 + TILE_M, w.rows) - 1;
    w.first = USE_TILE_SKIP ? visible_lo(&p->fwd, &w.s, w.row0 >> p->pack) / TILE_N : 0;
    w.last = ((USE_TILE_SKIP ? max(visible_hi(&p->fwd, &w.s, last_row >> p->pack), 0) : w.s.len_k) + TILE_N - 1) / TILE_N;
    w.turned = HAS_ALIBI ? max(0, w.last - 1 - max(w.first, (last_row + w.s.shift) / TILE_N)) : 0;
    if (SPLITS_KEYS)
        take_part(&p->fwd, &w);
    return w;
}

DEVICE bool has_rows(const tile_work *w) {
    return w->row0 < w->rows;
}

DEVICE bool has_keys(const tile_work *w) {
    return w->first < w->last;
}

/* Does some row of warpgroup `group` exist? */
DEVICE bool has_rows_of(int row0, int rows, int group) {
    return row0 + 64 * group < rows && row0 + 64 * group + 64 > 0;
}

DEVICE bool is_there(int row, int rows) {
    return (unsigned)row < (unsigned)rows;
}

/* The query head of a row of the unit. */
DEVICE int head_of(const att_fwd_sm90_params *p, int unit_head, int row) {
    return (unit_head << p->pack) + (row & ((1 << p->pack) - 1));
}

/* The head of K and V of a unit. */
DEVICE int key_head_of(const att_fwd_sm90_params *p, int unit_head) {
    return p->pack ? unit_head : (int)divide(unit_head, &p->fwd.by_group);
}

/* The element offset from the tile's first row to its row r, in a tensor of Q's shape. */
DEVICE long long row_offset(const att_fwd_sm90_params *p, const att_fwd_strides *stride, int r) {
    return (r >> p->pack) * stride->row + (r & ((1 << p->pack) - 1)) * stride->head;
}

/* The offset of the first row itself. */
DEVICE long long first_row(const att_fwd_sm90_params *p, const tile_work *w, const att_fwd_strides *stride) {
    return query_offset(&p->fwd, &w->s, stride, w->head << p->pack, w->row0 >> p->pack);
}

#endif
