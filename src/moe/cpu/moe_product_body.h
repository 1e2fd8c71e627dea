/* moe_product_body.h: rows of operands times the weights of some columns, in tiles that fit in
 * the registers.
 *
 * A tile is up to MR tokens by NV vectors of sums. The weights are stored in one of two ways:
 *
 *   rows     those of an output column are contiguous. A vector of sums belongs to one token
 *            and one column; its lanes are added up at the end.
 *   columns  those of a depth are contiguous (ATT_MOE_TRANSPOSED). A vector of sums belongs to
 *            one token and VF_W columns.
 *
 * With up to MR tokens, the weights are streamed once. With more, the depth is cut into blocks,
 * and a tile's weights of a block, unpacked if necessary, stay in the cache while all tokens
 * are processed; sums are kept in memory between blocks. Either way a sum adds its terms in the
 * same order. */
#ifndef ATT_MOE_CPU_PRODUCT_BODY_H
#define ATT_MOE_CPU_PRODUCT_BODY_H

#include <stdbool.h>

#include "base/checked.h"

/* Sums are reduced four at a time. TOKENS_MOST: rows per product. */
enum { NV = 4, TOKENS_MOST = 48 };
_Static_assert(TOKENS_MOST % MR == 0, "whole tiles");

/* Depth of a block: the weights of a tile in it are up to 16 KiB of float32, or 32 with
 * AVX-512. */
enum { ROWS_DEPTH = 1024, COLUMNS_DEPTH = 128, PREFETCHED_DEPTH = 16 };

typedef struct product {
    const operand *const *x; /* rows */
    int64_t tokens;
    const char *w;   /* the first weight of the first column */
    int64_t step;    /* bytes between rows of weights */
    att_dtype dtype; /* of the weights */
    bool transposed;
    int64_t columns, depth;
    float *out; /* `columns` sums per token */
    int64_t out_step;
    float *sums;  /* PRODUCT_SUMS(columns) */
    float *panel; /* PRODUCT_PANEL */
} product;

/* Floats of scratch: the sums of all tiles, and the weights of one. */
enum {
    ROWS_PANEL = NV * ROWS_DEPTH,
    COLUMNS_PANEL = NV * VF_W * COLUMNS_DEPTH,
    PRODUCT_PANEL = (int)ROWS_PANEL > (int)COLUMNS_PANEL ? (int)ROWS_PANEL : (int)COLUMNS_PANEL
};

static int64_t product_sums(int64_t columns) {
    return att_round_up(columns, (int64_t)NV * VF_W) * TOKENS_MOST * VF_W;
}

/* --------------------------------------------------------------------- tiles */

VF_INLINE void clear_sums(const int m, vf sums[MR][NV]) {
    for (int i = 0; i < m; i++)
        for (int n = 0; n < NV; n++)
            sums[i][n] = vf_set1(0.0f);
}

VF_INLINE void load_sums(const int m, vf sums[MR][NV], const float *from) {
    for (int i = 0; i < m; i++)
        for (int n = 0; n < NV; n++)
            sums[i][n] = vf_load(from + (i * NV + n) * VF_W);
}

VF_INLINE void store_sums(const int m, vf sums[MR][NV], float *to) {
    for (int i = 0; i < m; i++)
        for (int n = 0; n < NV; n++)
            vf_store(to + (i * NV + n) * VF_W, sums[i][n]);
}

VF_INLINE void add_tile(const int m, const vf x[MR], vf w, int n, vf sums[MR][NV]) {
    for (int i = 0; i < m; i++)
        sums[i][n] = multiply_add(x[i], w, sums[i][n]);
}

/* Depths [0, depth) of NV columns, with weights stored in rows. Meanwhile `ahead` rows, with
 * ahead_bytes per weight, are prefetched. */
VF_INLINE void add_rows(const int m, const operand *const x[MR], const char *const w[NV],
                        const att_dtype dtype, int64_t depth, const char *const *ahead,
                        const int ahead_count, const int64_t ahead_bytes, vf sums[MR][NV]) {
    const int64_t bytes = att_dtype_bytes(dtype);
    vf row[MR];
    int64_t k = 0;
    for (; k + DEPTH_STEP <= depth; k += DEPTH_STEP) {
        for (int r = 0; r < ahead_count; r++)
            __builtin_prefetch(ahead[r] + k * ahead_bytes, 0, 2);
        for (int i = 0; i < m; i++)
            row[i] = load_operands(x[i] + k, DEPTH_STEP);
        for (int n = 0; n < NV; n++)
            add_tile(m, row, load_weights(w[n] + k * bytes, dtype, DEPTH_STEP), n, sums);
    }
    if (k == depth)
        return;
    for (int i = 0; i < m; i++)
        row[i] = load_operands(x[i] + k, depth - k);
    for (int n = 0; n < NV; n++)
        add_tile(m, row, load_weights(w[n] + k * bytes, dtype, depth - k), n, sums);
}

VF_INLINE void add_columns_step(const int m, const operand *const x[MR], int64_t k,
                                int64_t left, const vf weights[NV], vf sums[MR][NV]) {
    vf spread[MR];
    for (int i = 0; i < m; i++)
        spread[i] = spread_operands(x[i] + k, left);
    for (int n = 0; n < NV; n++)
        add_tile(m, spread, weights[n], n, sums);
}

/* Weights stored in columns, directly from memory. */
VF_INLINE void add_columns(const int m, const operand *const x[MR], const product *q,
                           const char *w, const att_dtype dtype, int64_t columns,
                           vf sums[MR][NV]) {
    vf weights[NV];
    for (int64_t k = 0; k < q->depth; k += COLUMN_DEPTH) {
        const char *row = w + k * q->step;
        __builtin_prefetch(w + att_min(k + PREFETCHED_DEPTH, q->depth - 1) * q->step);
        load_columns(row, q->step, q->depth - k, dtype, columns, NV, weights);
        add_columns_step(m, x, k, q->depth - k, weights, sums);
    }
}

/* The same from a panel, which holds vectors. */
VF_INLINE void add_panel(const int m, const operand *const x[MR], const float *panel,
                         int64_t depth, vf sums[MR][NV]) {
    vf weights[NV];
    for (int64_t k = 0; k < depth; k += COLUMN_DEPTH, panel += NV * VF_W) {
        for (int n = 0; n < NV; n++)
            weights[n] = vf_load(panel + n * VF_W);
        add_columns_step(m, x, k, depth - k, weights, sums);
    }
}

/* Store complete sums of `columns` columns. */
VF_INLINE void finish_tile(const int m, const product *q, int64_t token, int64_t column,
                           int64_t columns, const bool transposed, vf sums[MR][NV]) {
    for (int i = 0; i < m; i++) {
        float *to = q->out + (token + i) * q->out_step + column;
        if (transposed) {
            for (int64_t n = 0; n < NV && n * VF_W < columns; n++)
                vf_store_as(to + n * VF_W, ATT_F32, sums[i][n], columns - n * VF_W);
        } else {
            float reduced[NV];
            vf_reduce_add4(sums[i], reduced);
            for (int64_t n = 0; n < NV && n < columns; n++)
                to[n] = reduced[n];
        }
    }
}

/* ----------------------------------------------------------------- few tokens */

/* The rows of a tile; past the last column, the last one is repeated. */
static void point_at_rows(const product *q, int64_t column, int64_t depth,
                          const char *rows[NV]) {
    for (int64_t n = 0; n < NV; n++)
        rows[n] = q->w + att_min(column + n, q->columns - 1) * q->step +
                  depth * att_dtype_bytes(q->dtype);
}

VF_INLINE void stream_tile(const int m, const product *q, const att_dtype dtype,
                           const bool transposed, int64_t column) {
    const int64_t width = transposed ? (int64_t)NV * VF_W : NV;
    const int64_t columns = att_min(width, q->columns - column);
    vf sums[MR][NV];
    clear_sums(m, sums);
    if (transposed) {
        add_columns(m, q->x, q, q->w + column * att_dtype_bytes(dtype), dtype, columns, sums);
    } else {
        const char *rows[NV], *ahead[NV];
        point_at_rows(q, column, 0, rows);
        point_at_rows(q, column + NV, 0, ahead);
        add_rows(m, q->x, rows, dtype, q->depth, ahead, NV, att_dtype_bytes(dtype), sums);
    }
    finish_tile(m, q, 0, column, columns, transposed, sums);
}

/* ---------------------------------------------------------------- many tokens */

/* Unpack the weights of a tile and a block of depth to vectors. */
VF_INLINE void unpack_rows(const product *q, const char *const rows[NV], const att_dtype dtype,
                           int64_t depth) {
    for (int n = 0; n < NV; n++)
        for (int64_t k = 0; k < depth; k += VF_W)
            vf_store(q->panel + n * ROWS_DEPTH + k,
                     vf_load_as(rows[n] + k * att_dtype_bytes(dtype), dtype, depth - k));
}

VF_INLINE void unpack_columns(const product *q, const char *w, const att_dtype dtype,
                              int64_t columns, int64_t depth) {
    vf weights[NV];
    float *panel = q->panel;
    for (int64_t k = 0; k < depth; k += COLUMN_DEPTH, panel += NV * VF_W) {
        load_columns(w + k * q->step, q->step, depth - k, dtype, columns, NV, weights);
        for (int n = 0; n < NV; n++)
            vf_store(panel + n * VF_W, weights[n]);
    }
}

/* A block of depth of one tile. */
typedef struct tile_block {
    int64_t column, columns;
    int64_t begin, depth; /* depths [begin, begin + depth) */
    bool last;
    const char *rows[NV];  /* of weights, as stored or unpacked */
    const char *ahead[NV]; /* the next ones, as stored */
    float *sums;           /* of all tokens */
} tile_block;

/* The first groups of tokens share the prefetching of the next weights. */
VF_INLINE void add_block_rows(const int m, const operand *const x[MR], const product *q,
                              const tile_block *b, const att_dtype dtype, int64_t token,
                              vf sums[MR][NV]) {
    const int64_t bytes = att_dtype_bytes(q->dtype), group = token / MR;
    const bool many = q->tokens > (NV - 1) * MR;
    if (many && group < NV)
        add_rows(m, x, b->rows, dtype, b->depth, b->ahead + group, 1, bytes, sums);
    else if (!many && group < 2)
        add_rows(m, x, b->rows, dtype, b->depth, b->ahead + group * NV / 2, NV / 2, bytes,
                 sums);
    else
        add_rows(m, x, b->rows, dtype, b->depth, NULL, 0, bytes, sums);
}

VF_INLINE void block_tile(const int m, const product *q, const tile_block *b,
                          const att_dtype dtype, const bool transposed, int64_t token) {
    const operand *x[MR];
    float *kept = b->sums + token * NV * VF_W;
    vf sums[MR][NV];
    for (int i = 0; i < m; i++)
        x[i] = q->x[token + i] + b->begin;
    if (b->begin == 0)
        clear_sums(m, sums);
    else
        load_sums(m, sums, kept);
    if (transposed)
        add_panel(m, x, q->panel, b->depth, sums);
    else
        add_block_rows(m, x, q, b, dtype, token, sums);
    if (b->last)
        finish_tile(m, q, token, b->column, b->columns, transposed, sums);
    else
        store_sums(m, sums, kept);
}

/* -------------------------------------------------------------------- product */

/* The loops of a tile are instantiated for every number of tokens it may have. */
#define MOST_OF(m) ((m) < MR ? (m) : MR)
#define WITH_CONSTANT(m, call)                                                                 \
    switch (m) {                                                                               \
    case 1:                                                                                    \
        call(1);                                                                               \
        break;                                                                                 \
    case 2:                                                                                    \
        call(MOST_OF(2));                                                                      \
        break;                                                                                 \
    case 3:                                                                                    \
        call(MOST_OF(3));                                                                      \
        break;                                                                                 \
    case 4:                                                                                    \
        call(MOST_OF(4));                                                                      \
        break;                                                                                 \
    case 5:                                                                                    \
        call(MOST_OF(5));                                                                      \
        break;                                                                                 \
    default:                                                                                   \
        call(MR);                                                                              \
    }

VF_INLINE void stream_weights(const product *q, const att_dtype dtype, const bool transposed) {
    const int64_t width = transposed ? (int64_t)NV * VF_W : NV;
    for (int64_t column = 0; column < q->columns; column += width) {
#define STREAM(m) stream_tile(m, q, dtype, transposed, column)
        WITH_CONSTANT(q->tokens, STREAM)
#undef STREAM
    }
}

/* Weights stored in rows are used directly if their type need not be widened. */
VF_INLINE void multiply_block(const product *q, tile_block *b, const att_dtype dtype,
                              const bool transposed) {
    const bool unpacks = !transposed && !MULTIPLIES_PAIRS && dtype != ATT_F32;
    if (!transposed) {
        point_at_rows(q, b->column, b->begin, b->rows);
        point_at_rows(q, b->column + NV, b->begin, b->ahead);
    }
    if (transposed)
        unpack_columns(q, q->w + b->begin * q->step + b->column * att_dtype_bytes(dtype), dtype,
                       b->columns, b->depth);
    else if (unpacks)
        unpack_rows(q, b->rows, dtype, b->depth);
    for (int n = 0; unpacks && n < NV; n++)
        b->rows[n] = (const char *)(q->panel + n * ROWS_DEPTH);
    for (int64_t token = 0; token < q->tokens; token += MR) {
#define BLOCK(m) block_tile(m, q, b, unpacks ? ATT_F32 : dtype, transposed, token)
        WITH_CONSTANT(q->tokens - token, BLOCK)
#undef BLOCK
    }
}

VF_INLINE void block_weights(const product *q, const att_dtype dtype, const bool transposed) {
    const int64_t width = transposed ? (int64_t)NV * VF_W : NV;
    const int64_t depth_most = transposed ? COLUMNS_DEPTH : ROWS_DEPTH;
    for (int64_t begin = 0; begin < q->depth; begin += depth_most)
        for (int64_t column = 0; column < q->columns; column += width) {
            tile_block b = {.column = column,
                            .columns = att_min(width, q->columns - column),
                            .begin = begin,
                            .depth = att_min(depth_most, q->depth - begin),
                            .last = q->depth - begin <= depth_most,
                            .sums = q->sums + column / width * NV * VF_W * TOKENS_MOST};
            multiply_block(q, &b, dtype, transposed);
        }
}

VF_INLINE void multiply_as(const product *q, const att_dtype dtype, const bool transposed) {
    if (q->tokens <= MR)
        stream_weights(q, dtype, transposed);
    else
        block_weights(q, dtype, transposed);
}

/* out = x times the weights. */
static void multiply(const product *q) {
    if (MULTIPLIES_PAIRS || q->dtype == ATT_BF16) {
        if (q->transposed)
            multiply_as(q, ATT_BF16, true);
        else
            multiply_as(q, ATT_BF16, false);
    } else if (q->dtype == ATT_F16) {
        if (q->transposed)
            multiply_as(q, ATT_F16, true);
        else
            multiply_as(q, ATT_F16, false);
    } else {
        if (q->transposed)
            multiply_as(q, ATT_F32, true);
        else
            multiply_as(q, ATT_F32, false);
    }
}

#endif
