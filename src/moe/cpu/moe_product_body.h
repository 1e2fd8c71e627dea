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

/* The loops of a tile are instantiated for every number of tokens it may have. */
#define MOST_OF(m) ((m) < MR ? (m) : MR)
#define WITH_CONSTANT(tokens, call)                                                            \
    if ((tokens) == 1)                                                                         \
        call(1);                                                                               \
    else if ((tokens) == 2)                                                                    \
        call(2);                                                                               \
    else if (MR > 3 && (tokens) == 3)                                                          \
        call(MOST_OF(3));                                                                      \
    else if (MR > 4 && (tokens) == 4)                                                          \
        call(MOST_OF(4));                                                                      \
    else if (MR > 5 && (tokens) == 5)                                                          \
        call(MOST_OF(5));                                                                      \
    else                                                                                       \
        call(MR);
_Static_assert(MR >= 3 && MR <= 6, "every number of tokens has its instance");

/* The rows of m tokens from depth `begin` on. */
VF_INLINE void point_at_tokens(const int m, const product *q, int64_t token, int64_t begin,
                               const operand *x[MR]) {
    for (int i = 0; i < m; i++)
        x[i] = q->x[token + i] + begin;
}

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

/* Token by token: of the operands, which are in memory, a register holds one at a time. */
VF_INLINE void add_columns_step(const int m, const operand *const x[MR], int64_t k,
                                int64_t left, const vf weights[NV], vf sums[MR][NV]) {
    for (int i = 0; i < m; i++) {
        const vf spread = spread_operands(x[i] + k, left);
        for (int n = 0; n < NV; n++)
            sums[i][n] = multiply_add(spread, weights[n], sums[i][n]);
    }
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

/* Store complete sums of `columns` columns. They come from memory, as store_sums() left them:
 * were they indexed here, in loops that are not unrolled, they could not stay in registers
 * before. */
VF_INLINE void finish_tile(const int m, const product *q, int64_t token, int64_t column,
                           int64_t columns, const bool transposed, const float *sums) {
    for (int i = 0; i < m; i++, sums += NV * VF_W) {
        float *to = q->out + (token + i) * q->out_step + column;
        if (transposed) {
            for (int64_t n = 0; n < NV && n * VF_W < columns; n++)
                vf_store_as(to + n * VF_W, ATT_F32, vf_load(sums + n * VF_W),
                            columns - n * VF_W);
        } else {
            vf row[NV];
            float reduced[NV];
            for (int n = 0; n < NV; n++)
                row[n] = vf_load(sums + n * VF_W);
            vf_reduce_add4(row, reduced);
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
    const operand *x[MR];
    vf sums[MR][NV];
    point_at_tokens(m, q, 0, 0, x);
    clear_sums(m, sums);
    if (transposed) {
        add_columns(m, x, q, q->w + column * att_dtype_bytes(dtype), dtype, columns, sums);
    } else {
        const char *rows[NV], *ahead[NV];
        point_at_rows(q, column, 0, rows);
        point_at_rows(q, column + NV, 0, ahead);
        add_rows(m, x, rows, dtype, q->depth, ahead, NV, att_dtype_bytes(dtype), sums);
    }
    float complete[MR * NV * VF_W];
    store_sums(m, sums, complete);
    finish_tile(m, q, 0, column, columns, transposed, complete);
}

VF_INLINE void stream_weights(const product *q, const att_dtype dtype, const bool transposed) {
    const int64_t width = transposed ? (int64_t)NV * VF_W : NV;
    for (int64_t column = 0; column < q->columns; column += width) {
#define STREAM(m) stream_tile(m, q, dtype, transposed, column)
        WITH_CONSTANT(q->tokens, STREAM)
#undef STREAM
    }
}

/* ---------------------------------------------------------------- many tokens */

/* A block of depth of one tile. */
typedef struct tile_block {
    int64_t column, columns;
    int64_t begin, depth; /* depths [begin, begin + depth) */
    bool last;
    const char *rows[NV];  /* of weights, as stored or unpacked */
    const char *ahead[NV]; /* the next ones, as stored */
    float *sums;           /* of all tokens */
} tile_block;

/* The type of the weights that a block multiplies: those of another type are unpacked. */
#define BLOCK_DTYPE (MULTIPLIES_PAIRS ? ATT_BF16 : ATT_F32)

VF_INLINE void unpack_rows_as(const product *q, tile_block *b, const att_dtype dtype) {
    for (int n = 0; n < NV; n++) {
        float *to = q->panel + n * ROWS_DEPTH;
        for (int64_t k = 0; k < b->depth; k += VF_W)
            vf_store(to + k,
                     vf_load_as(b->rows[n] + k * att_dtype_bytes(dtype), dtype, b->depth - k));
        b->rows[n] = (const char *)to;
    }
}

VF_INLINE void unpack_columns_as(const product *q, const tile_block *b, const att_dtype dtype) {
    const char *w = q->w + b->begin * q->step + b->column * att_dtype_bytes(dtype);
    vf weights[NV];
    float *panel = q->panel;
    for (int64_t k = 0; k < b->depth; k += COLUMN_DEPTH, panel += NV * VF_W) {
        load_columns(w + k * q->step, q->step, b->depth - k, dtype, b->columns, NV, weights);
        for (int n = 0; n < NV; n++)
            vf_store(panel + n * VF_W, weights[n]);
    }
}

/* Find the rows of weights of a block; they are used directly if they need not be widened. */
static void prepare_rows(const product *q, tile_block *b) {
    point_at_rows(q, b->column, b->begin, b->rows);
    point_at_rows(q, b->column + NV, b->begin, b->ahead);
    if (q->dtype == BLOCK_DTYPE)
        return;
    if (q->dtype == ATT_BF16)
        unpack_rows_as(q, b, ATT_BF16);
    else
        unpack_rows_as(q, b, ATT_F16);
}

/* Columns of weights are always unpacked. */
static void prepare_columns(const product *q, const tile_block *b) {
    if (MULTIPLIES_PAIRS || q->dtype == ATT_BF16)
        unpack_columns_as(q, b, ATT_BF16);
    else if (q->dtype == ATT_F16)
        unpack_columns_as(q, b, ATT_F16);
    else
        unpack_columns_as(q, b, ATT_F32);
}

/* The first two groups of tokens share the prefetching of the next weights. */
VF_INLINE void add_block_rows(const int m, const operand *const x[MR], const product *q,
                              const tile_block *b, int64_t token, vf sums[MR][NV]) {
    const int64_t bytes = att_dtype_bytes(q->dtype), group = token / MR;
    if (group < 2)
        add_rows(m, x, b->rows, BLOCK_DTYPE, b->depth, b->ahead + group * NV / 2, NV / 2, bytes,
                 sums);
    else
        add_rows(m, x, b->rows, BLOCK_DTYPE, b->depth, NULL, 0, bytes, sums);
}

VF_INLINE void block_tile(const int m, const product *q, const tile_block *b,
                          const bool transposed, int64_t token) {
    const operand *x[MR];
    float *kept = b->sums + token * NV * VF_W;
    vf sums[MR][NV];
    point_at_tokens(m, q, token, b->begin, x);
    if (b->begin == 0)
        clear_sums(m, sums);
    else
        load_sums(m, sums, kept);
    if (transposed)
        add_panel(m, x, q->panel, b->depth, sums);
    else
        add_block_rows(m, x, q, b, token, sums);
    store_sums(m, sums, kept);
    if (b->last)
        finish_tile(m, q, token, b->column, b->columns, transposed, kept);
}

VF_INLINE void block_tiles(const product *q, const tile_block *b, const bool transposed) {
    for (int64_t token = 0; token < q->tokens; token += MR) {
#define BLOCK(m) block_tile(m, q, b, transposed, token)
        WITH_CONSTANT(q->tokens - token, BLOCK)
#undef BLOCK
    }
}

VF_INLINE void block_weights(const product *q, const bool transposed) {
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
            if (transposed)
                prepare_columns(q, &b);
            else
                prepare_rows(q, &b);
            block_tiles(q, &b, transposed);
        }
}

/* -------------------------------------------------------------------- product */

/* Separate functions compile faster than one with all of these loops. */
#define PRODUCT_CODE __attribute__((noinline)) static void

VF_INLINE void stream_as(const product *q, const att_dtype dtype) {
    if (q->transposed)
        stream_weights(q, dtype, true);
    else
        stream_weights(q, dtype, false);
}

PRODUCT_CODE stream_bf16(const product *q) {
    stream_as(q, ATT_BF16);
}
PRODUCT_CODE stream_f16(const product *q) {
    stream_as(q, ATT_F16);
}
PRODUCT_CODE stream_f32(const product *q) {
    stream_as(q, ATT_F32);
}
PRODUCT_CODE block_rows(const product *q) {
    block_weights(q, false);
}
PRODUCT_CODE block_columns(const product *q) {
    block_weights(q, true);
}

/* out = x times the weights. */
static void multiply(const product *q) {
    if (q->tokens > MR && q->transposed)
        block_columns(q);
    else if (q->tokens > MR)
        block_rows(q);
    else if (MULTIPLIES_PAIRS || q->dtype == ATT_BF16)
        stream_bf16(q);
    else if (q->dtype == ATT_F16)
        stream_f16(q);
    else
        stream_f32(q);
}

#endif
