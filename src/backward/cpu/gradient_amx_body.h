/* gradient_amx_body.h: the five products of a tile of bfloat16 on AMX.
 *
 * Operands are whole tiles of 1 KiB: a left one has 16 rows of 32 numbers of what is summed over, a right one 16 pairs of them by 16
 * columns, in words of 32 bits.
 *
 *   product                 left operand                          right operand
 *   S     = Q K^T           q             [rows/16][d_qk/32]      k        [keys/16][d_qk/32]
 *   d_p   = d_o V^T         d_o           [rows/16][d_v/32]       v        [keys/16][d_v/32]
 *   d_v^T = d_o^T P         d_o_right     [d_v/16][rows/32]       weights  [keys/16][rows/32]
 *   d_k^T = Q^T d_s         q_right       [d_qk/16][rows/32]      d_scores [keys/16][rows/32]
 *   d_q   = d_s K           d_scores_left [rows/16][keys/32]      k_right  [d_qk/16][keys/32]
 *
 * d_v and d_k are summed turned, so that two rows of weights, zipped, are a row of their operand as they stand. What is not finite is
 * replaced in d_o_right, q_right and k_right (gradient_panel_body.h says why). */
#ifndef ATT_BACKWARD_CPU_GRADIENT_PRODUCTS_BODY_H
#define ATT_BACKWARD_CPU_GRADIENT_PRODUCTS_BODY_H

#include <string.h>

#include "cpu/amx_tiles.h"
#include "backward/cpu/addresses.h"
#include "backward/cpu/gradient_tile.h"
#include "cpu/bf16_pairs.h"
#include "cpu/math_body.h"

enum { BLOCK_ROWS = 128, CHUNK_KEYS = 256, STRIP_ROWS = 32, WEIGH_ROWS = 2 };
enum { DEPTH = 32, SIDE = 16 }; /* of a tile: what is summed over, and rows or columns */
enum { KEY_STEP = 32, KEY_GROUP = 32, KEYS_STRIDE = CHUNK_KEYS + SIDE };
enum { ROW_TILES = BLOCK_ROWS / DEPTH, KEY_TILES = CHUNK_KEYS / DEPTH };
enum { ELEMENT_BYTES = 2, PRODUCTS_FLUSH = 1 };

/* Of exp2: enough for weights of bfloat16; d_bias and d_alibi are of derivatives that are not rounded. */
enum { DEGREE_ROUNDED = 3, DEGREE_EXACT = 5 };
_Static_assert(BLOCK_ROWS / STRIP_ROWS <= STRIPS_MOST, "the strips of a block fit a tile");

#include "backward/cpu/gradient_terms_body.h"
#include "backward/cpu/huge_d_o.h"

static int64_t sum_width(int64_t d) {
    return att_round_up(d, 2 * SIDE);
}

static int64_t sum_stride(const att_problem *p) {
    return sum_width(p->d_qk);
}

static inline int64_t depth_tiles(int64_t d) {
    return att_ceil_div(d, DEPTH);
}

/* Hand out 64-byte aligned pieces of the scratch; with base NULL only counts. */
static void *take(char *base, size_t *used, size_t bytes) {
    char *piece = base ? base + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return piece;
}

static size_t tiles(int64_t count) {
    return (size_t)count * AMX_TILE_BYTES;
}

static void operands_map(gradient_tile *t, const att_problem *p, char *base, size_t *used) {
    const int64_t deep_qk = depth_tiles(p->d_qk), deep_v = depth_tiles(p->d_v);
    const int64_t wide_qk = sum_width(p->d_qk), wide_v = sum_width(p->d_v);
    const size_t strip = sizeof(float) * STRIP_ROWS * KEYS_STRIDE;
    const size_t row_k = sizeof(float) * (size_t)wide_qk,
                 row_v = sizeof(float) * (size_t)wide_v;
    t->k = take(base, used, tiles(CHUNK_KEYS / SIDE * deep_qk));
    t->v = take(base, used, tiles(CHUNK_KEYS / SIDE * deep_v));
    t->k_right = take(base, used, tiles(wide_qk / SIDE * KEY_TILES));
    t->q = take(base, used, tiles(BLOCK_ROWS / SIDE * deep_qk));
    t->d_o = take(base, used, tiles(BLOCK_ROWS / SIDE * deep_v));
    t->q_right = take(base, used, tiles(wide_qk / SIDE * ROW_TILES));
    t->d_o_right = take(base, used, tiles(wide_v / SIDE * ROW_TILES));
    t->weights = take(base, used, tiles(CHUNK_KEYS / SIDE * ROW_TILES));
    t->d_scores = take(base, used, tiles(CHUNK_KEYS / SIDE * ROW_TILES));
    t->d_scores_left = take(base, used, tiles(BLOCK_ROWS / SIDE * KEY_TILES));
    t->scores = take(base, used, strip);
    t->d_weights = take(base, used, strip);
    t->d_k_turned = take(base, used, row_k * KEYS_STRIDE);
    t->d_v_turned = take(base, used, row_v * KEYS_STRIDE);
    t->d_k = take(base, used, row_k * CHUNK_KEYS);
    t->d_v = take(base, used, row_v * CHUNK_KEYS);
}

/* Row `row` of tile `index` of an operand. */
static inline float *tile_words(char *operand, int64_t index, int64_t row) {
    return (float *)(void *)(operand + index * AMX_TILE_BYTES + row * AMX_ROW_BYTES);
}

/* Numbers x .. x + 31 of row r of `count`; zeros past its end and past the rows. */
static inline vf load_row(const char **rows, int64_t r, int64_t count, int64_t x, int64_t d) {
    return r < count && x < d ? vf_load_pairs(rows[r] + x * ELEMENT_BYTES, d - x)
                              : vf_set1(0.0f);
}

/* Left operand: rows as they are. */
static void pack_left(const char **rows, int64_t count, int64_t padded, int64_t d, char *to) {
    for (int64_t r = 0; r < padded; r++)
        for (int64_t x = 0; x < d; x += DEPTH)
            vf_store(tile_words(to, r / SIDE * depth_tiles(d) + x / DEPTH, r % SIDE),
                     load_row(rows, r, count, x, d));
}

/* Right operand of sums over d: 16 rows by 32 numbers, turned as words. */
static void pack_transposed(const char **rows, int64_t count, int64_t d, char *to) {
    for (int64_t j = 0; j < att_round_up(count, KEY_STEP); j += SIDE)
        for (int64_t x = 0; x < d; x += DEPTH) {
            vf block[SIDE];
            for (int i = 0; i < SIDE; i++)
                block[i] = load_row(rows, j + i, count, x, d);
            vf_transpose(block);
            for (int i = 0; i < SIDE; i++)
                vf_store(tile_words(to, j / SIDE * depth_tiles(d) + x / DEPTH, i), block[i]);
        }
}

/* Columns x .. x + 31 of rows r and r + 1 as pairs, 16 to each. */
static inline void zip_rows(const char **rows, int64_t r, int64_t count, int64_t x, int64_t d,
                            vf *low, vf *high) {
    vf_zip_pairs(vf_finite_pairs(load_row(rows, r, count, x, d)),
                 vf_finite_pairs(load_row(rows, r + 1, count, x, d)), low, high);
}

/* Right operand of sums over keys: pairs of rows. */
static void pack_right(const char **rows, int64_t count, int64_t d, char *to) {
    for (int64_t j = 0; j < att_round_up(count, KEY_STEP); j += 2)
        for (int64_t x = 0; x < sum_width(d); x += 2 * SIDE) {
            const int64_t tile = x / SIDE * KEY_TILES + j / DEPTH;
            vf low, high;
            zip_rows(rows, j, count, x, d, &low, &high);
            vf_store(tile_words(to, tile, j % DEPTH / 2), low);
            vf_store(tile_words(to, tile + KEY_TILES, j % DEPTH / 2), high);
        }
}

/* Left operand of sums over rows: 32 rows by 16 columns, turned. */
static void pack_turned(const char **rows, int64_t count, int64_t padded, int64_t d, char *to) {
    for (int64_t r = 0; r < padded; r += DEPTH)
        for (int64_t x = 0; x < sum_width(d); x += 2 * SIDE) {
            vf low[SIDE], high[SIDE];
            for (int i = 0; i < SIDE; i++)
                zip_rows(rows, r + 2 * i, count, x, d, &low[i], &high[i]);
            vf_transpose(low);
            vf_transpose(high);
            const int64_t tile = x / SIDE * ROW_TILES + r / DEPTH;
            for (int i = 0; i < SIDE; i++) {
                vf_store(tile_words(to, tile, i), low[i]);
                vf_store(tile_words(to, tile + ROW_TILES, i), high[i]);
            }
        }
}

static void pack_keys(const gradient_tile *t) {
    const att_cpu_job *job = &t->job->base;
    const att_problem *p = job->p;
    att_cpu_kv_rows(job, &t->s, job->a->k, &p->k, t->j0, t->keys, t->addresses);
    pack_transposed(t->addresses, t->keys, p->d_qk, t->k);
    if (!t->scores_only)
        pack_right(t->addresses, t->keys, p->d_qk, t->k_right);
    att_cpu_kv_rows(job, &t->s, job->a->v, &p->v, t->j0, t->keys, t->addresses);
    pack_transposed(t->addresses, t->keys, p->d_v, t->v);
}

/* Addresses of the block's rows in a tensor of one row per query. */
static void find_rows(const gradient_tile *t, const void *base, const att_strides *st) {
    for (int64_t r = 0; r < t->rows; r++) {
        const att_cpu_query q = att_cpu_query_of(&t->job->base, &t->s, tile_row(t, r));
        t->addresses[r] =
            (const char *)base +
            att_query_offset(t->job->base.p, st, &t->s, q.head, q.position) * ELEMENT_BYTES;
    }
}

static void pack_row_operand(const gradient_tile *t, int64_t d, char *left, char *turned) {
    const int64_t padded = att_round_up(t->rows, STRIP_ROWS);
    pack_left(t->addresses, t->rows, padded, d, left);
    if (!t->scores_only)
        pack_turned(t->addresses, t->rows, padded, d, turned);
}

static void pack_rows(const gradient_tile *t) {
    const att_problem *p = t->job->base.p;
    find_rows(t, t->job->base.a->q, &p->q);
    pack_row_operand(t, p->d_qk, t->q, t->q_right);
    find_rows(t, t->job->base.a->d_o, &p->grad_o);
    scale_d_o(t);
    pack_row_operand(t, p->d_v, t->d_o, t->d_o_right);
}

/* An operand of a product: its first tile, bytes to the tile 16 rows below or 16 columns beside, whose next along the depth follow each
 * other. */
typedef struct operand {
    const char *first;
    int64_t beside;
} operand;

static operand operand_at(const char *base, int64_t side, int64_t depth, int64_t deep) {
    return (operand){base + (side * deep + depth) * AMX_TILE_BYTES, deep * AMX_TILE_BYTES};
}

/* c[32][32] (+)= left right, over `depth` tiles. */
VF_INLINE void amx_product(const bool add, operand left, operand right, int64_t depth, float *c,
                           int64_t stride) {
    const int64_t bytes = stride * (int64_t)sizeof *c;
    float *below = c + SIDE * stride;
    if (add) {
        AMX_LOAD(0, c, bytes);
        AMX_LOAD(1, c + SIDE, bytes);
        AMX_LOAD(2, below, bytes);
        AMX_LOAD(3, below + SIDE, bytes);
    } else {
        AMX_ZERO(0);
        AMX_ZERO(1);
        AMX_ZERO(2);
        AMX_ZERO(3);
    }
    const char *a = left.first, *b = right.first;
    for (int64_t i = 0; i < depth; i++, a += AMX_TILE_BYTES, b += AMX_TILE_BYTES) {
        AMX_LOAD(4, a, AMX_ROW_BYTES);
        AMX_LOAD(6, b, AMX_ROW_BYTES);
        AMX_MULTIPLY(0, 4, 6);
        AMX_LOAD(7, b + right.beside, AMX_ROW_BYTES);
        AMX_MULTIPLY(1, 4, 7);
        AMX_LOAD(5, a + left.beside, AMX_ROW_BYTES);
        AMX_MULTIPLY(2, 5, 6);
        AMX_MULTIPLY(3, 5, 7);
    }
    AMX_STORE(0, c, bytes);
    AMX_STORE(1, c + SIDE, bytes);
    AMX_STORE(2, below, bytes);
    AMX_STORE(3, below + SIDE, bytes);
}

static float *strip_s(const gradient_tile *t, int64_t row) {
    return t->scores + row % STRIP_ROWS * KEYS_STRIDE;
}
static float *strip_d_p(const gradient_tile *t, int64_t row) {
    return t->d_weights + row % STRIP_ROWS * KEYS_STRIDE;
}

static void strip_products(const gradient_tile *t, int64_t row, att_cpu_interval keys) {
    const att_problem *p = t->job->base.p;
    const int64_t deep_qk = depth_tiles(p->d_qk), deep_v = depth_tiles(p->d_v);
    for (int64_t x = keys.lo; x < keys.hi; x += KEY_STEP) {
        amx_product(false, operand_at(t->q, row / SIDE, 0, deep_qk),
                    operand_at(t->k, x / SIDE, 0, deep_qk), deep_qk, strip_s(t, row) + x,
                    KEYS_STRIDE);
        amx_product(false, operand_at(t->d_o, row / SIDE, 0, deep_v),
                    operand_at(t->v, x / SIDE, 0, deep_v), deep_v, strip_d_p(t, row) + x,
                    KEYS_STRIDE);
    }
}

/* Words of rows r and r + 1 and keys x .. x + 15. */
static inline float *row_pair(char *operand_tiles, int64_t r, int64_t x) {
    return tile_words(operand_tiles, x / SIDE * ROW_TILES + r / DEPTH, r % DEPTH / 2);
}

static void clear_rows(const gradient_tile *t, int64_t r, att_cpu_interval keys) {
    for (int64_t x = keys.lo; x < keys.hi; x += SIDE) {
        vf_store(row_pair(t->weights, r, x), vf_set1(0.0f));
        vf_store(row_pair(t->d_scores, r, x), vf_set1(0.0f));
    }
}

VF_INLINE void weigh_pair_as(const gradient_tile *t, int64_t r, att_cpu_interval keys,
                             const bool shaped) {
    const bool both = r + 1 < t->rows;
    const int64_t below = both ? r + 1 : r;
    row_terms row[2] = {row_terms_of(t, r, strip_s(t, r), strip_d_p(t, r)),
                        row_terms_of(t, below, strip_s(t, below), strip_d_p(t, below))};
    give_up_huge_d_o(t, r, &row[0]);
    give_up_huge_d_o(t, below, &row[1]);
    if (!both) { /* padding */
        row[1].lo = row[1].hi = 0;
        row[1].d_s = NULL;
    }
    for (int64_t x = keys.lo; x < keys.hi; x += KEY_STEP) {
        vf w[2][2], d[2][2];
        for (int i = 0; i < 2; i++)
            for (int h = 0; h < 2; h++)
                terms_at(t, &row[i], x + h * SIDE, shaped,
                         shaped ? DEGREE_EXACT : DEGREE_ROUNDED, &w[i][h], &d[i][h]);
        for (int h = 0; h < 2; h++) {
            vf_store(row_pair(t->weights, r, x + h * SIDE), vf_round_pairs(w[0][h], w[1][h]));
            vf_store(row_pair(t->d_scores, r, x + h * SIDE), vf_round_pairs(d[0][h], d[1][h]));
        }
        for (int i = 0; i < 2; i++)
            vf_store_pairs(
                tile_words(t->d_scores_left, r / SIDE * KEY_TILES + x / DEPTH, r % SIDE + i),
                d[i][0], d[i][1]);
    }
    row_terms_end(t, &row[0], r);
    if (both)
        row_terms_end(t, &row[1], below);
}

static void weigh_rows(const gradient_tile *t, int64_t r, att_cpu_interval keys) {
    if (t->shaped)
        weigh_pair_as(t, r, keys, true);
    else
        weigh_pair_as(t, r, keys, false);
}

static void clear_key_sums(const gradient_tile *t) {
    const att_problem *p = t->job->base.p;
    memset(t->d_k_turned, 0, sizeof(float) * KEYS_STRIDE * (size_t)sum_width(p->d_qk));
    memset(t->d_v_turned, 0, sizeof(float) * KEYS_STRIDE * (size_t)sum_width(p->d_v));
}

/* Rows of the block, in whole strips, some of which sees one of the keys x .. x + 31. */
static att_cpu_interval rows_of_keys(const gradient_tile *t, int64_t x) {
    att_cpu_interval rows = {INT64_MAX, 0};
    for (int64_t row = 0; row < t->rows; row += STRIP_ROWS) {
        const att_cpu_interval keys = t->strip_keys[row / STRIP_ROWS];
        if (keys.lo <= x && keys.hi > x) {
            rows.lo = att_min(rows.lo, row);
            rows.hi = row + STRIP_ROWS;
        }
    }
    return rows;
}

static void add_turned(int64_t d, const char *left, const char *right, int64_t x,
                       att_cpu_interval rows, float *sums) {
    for (int64_t c = 0; c < sum_width(d); c += 2 * SIDE)
        amx_product(true, operand_at(left, c / SIDE, rows.lo / DEPTH, ROW_TILES),
                    operand_at(right, x / SIDE, rows.lo / DEPTH, ROW_TILES),
                    (rows.hi - rows.lo) / DEPTH, sums + c * KEYS_STRIDE + x, KEYS_STRIDE);
}

static void add_key_sums(const gradient_tile *t) {
    const att_problem *p = t->job->base.p;
    for (int64_t x = t->block_keys.lo; x < t->block_keys.hi; x += KEY_GROUP) {
        const att_cpu_interval rows = rows_of_keys(t, x);
        if (rows.hi <= rows.lo)
            continue;
        add_turned(p->d_v, t->d_o_right, t->weights, x, rows, t->d_v_turned);
        add_turned(p->d_qk, t->q_right, t->d_scores, x, rows, t->d_k_turned);
    }
}

static void add_row_sums(const gradient_tile *t, int64_t row, att_cpu_interval keys, bool first,
                         float *sums) {
    const int64_t width = sum_width(t->job->base.p->d_qk);
    for (int64_t c = 0; c < width; c += 2 * SIDE) {
        const operand left =
            operand_at(t->d_scores_left, row / SIDE, keys.lo / DEPTH, KEY_TILES);
        const operand right = operand_at(t->k_right, c / SIDE, keys.lo / DEPTH, KEY_TILES);
        const int64_t depth = (keys.hi - keys.lo) / DEPTH;
        if (first)
            amx_product(false, left, right, depth, sums + c, width);
        else
            amx_product(true, left, right, depth, sums + c, width);
    }
}

static void turn(const float *from, int64_t d, int64_t keys, float *to) {
    const int64_t width = sum_width(d);
    for (int64_t c = 0; c < width; c += SIDE)
        for (int64_t x = 0; x < keys; x += SIDE) {
            vf block[SIDE];
            for (int i = 0; i < SIDE; i++)
                block[i] = vf_load(from + (c + i) * KEYS_STRIDE + x);
            vf_transpose(block);
            for (int i = 0; i < SIDE; i++)
                vf_store(to + (x + i) * width + c, block[i]);
        }
}

static void settle_key_sums(const gradient_tile *t) {
    const att_problem *p = t->job->base.p;
    turn(t->d_k_turned, p->d_qk, t->keys, t->d_k);
    turn(t->d_v_turned, p->d_v, t->keys, t->d_v);
}

static void products_enter(void) {
    amx_enter();
}
static void products_leave(void) {
    amx_leave();
}

#endif
