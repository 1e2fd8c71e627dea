/* moe_amx_body.h: the two steps of a run with AMX tiles of bfloat16.
 *
 * Weights are the left operand: 16 columns of the product by 32 of depth, loaded directly from
 * the caller's memory. Tokens are the right one, 16 of them: pairs of depths by tokens. A tile
 * of sums is columns by tokens. Two rows of h, once activated, form a row of the right operand
 * of the second product, so h is kept in that form, in blocks of 16 positions. */
#ifndef ATT_MOE_CPU_AMX_BODY_H
#define ATT_MOE_CPU_AMX_BODY_H

#include "cpu/amx_tiles.h"
#include "cpu/bf16_pairs.h"
#include "moe/cpu/moe_activation_body.h"
#include "moe/cpu/moe_combine_body.h"
#include "moe/cpu/moe_experts.h"

/* TILE: columns or tokens per tile. DEPTH: per step. GROUPS: tiles of tokens at a time. */
enum { TILE = AMX_ROWS, DEPTH = 2 * AMX_ROWS, GROUPS = 2 };
enum { TILE_NUMBERS = TILE * DEPTH, SUMS = TILE * TILE };

/* For moe_kernel_body.h. Blocks are whole steps of depth of the second product. */
enum {
    TAKES_TRANSPOSED = 0,
    MULTIPLIES_PAIRS = 1,
    POSITION_ALIGN = TILE,
    BLOCK_LEAST = DEPTH,
    BLOCK_MOST = 128
};

/* Rows of weights that form the left operand: `count` of them, zeros for the rest. */
typedef struct weight_rows {
    const char *w;
    int64_t step; /* bytes */
    int64_t count;
} weight_rows;

static int64_t padded(int64_t depth) {
    return att_round_up(depth, DEPTH);
}

/* ------------------------------------------------------------------- products */

/* Copy a tile of weights, some of which are outside the matrix. */
static void copy_weights(uint16_t tile[TILE_NUMBERS], const weight_rows *rows, int64_t k,
                         int64_t depth) {
    const size_t bytes = (size_t)att_min(DEPTH, depth - k) * sizeof *tile;
    memset(tile, 0, TILE_NUMBERS * sizeof *tile);
    for (int64_t r = 0; r < rows->count; r++)
        memcpy(tile + r * DEPTH, rows->w + r * rows->step + k * (int64_t)sizeof *tile, bytes);
}

/* Prefetch the rows that the next call is likely to need. */
static void prefetch_rows(const weight_rows *rows, int64_t k) {
    const char *next = rows->w + TILE * rows->step + k * (int64_t)sizeof(uint16_t);
    for (int r = 0; r < TILE; r++)
        __builtin_prefetch(next + r * rows->step, 0, 2);
}

/* sums[2 * i + g] = rows[i] times group g of tokens, TILE x TILE each. `tokens` has the groups
 * one after the other, as blocks of `depth` rounded up. */
static void multiply_tiles(const weight_rows rows[2], int64_t depth, const uint16_t *tokens,
                           int groups, float sums[4][SUMS]) {
    const int64_t group = padded(depth) * TILE;
    uint16_t copies[2][TILE_NUMBERS];
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
    for (int64_t k = 0; k < depth; k += DEPTH) {
        const void *left[2];
        int64_t step[2];
        for (int i = 0; i < 2; i++) {
            const bool whole = rows[i].count == TILE && k + DEPTH <= depth;
            if (whole)
                prefetch_rows(&rows[i], k);
            else
                copy_weights(copies[i], &rows[i], k, depth);
            left[i] =
                whole ? (const void *)(rows[i].w + k * (int64_t)sizeof(uint16_t)) : copies[i];
            step[i] = whole ? rows[i].step : AMX_ROW_BYTES;
        }
        AMX_LOAD(4, left[0], step[0]);
        AMX_LOAD(5, left[1], step[1]);
        AMX_LOAD(6, tokens + k * TILE, AMX_ROW_BYTES);
        AMX_MULTIPLY(0, 4, 6);
        AMX_MULTIPLY(2, 5, 6);
        if (groups > 1) {
            AMX_LOAD(7, tokens + group + k * TILE, AMX_ROW_BYTES);
            AMX_MULTIPLY(1, 4, 7);
            AMX_MULTIPLY(3, 5, 7);
        }
    }
    AMX_STORE(0, sums[0], AMX_ROW_BYTES);
    AMX_STORE(1, sums[1], AMX_ROW_BYTES);
    AMX_STORE(2, sums[2], AMX_ROW_BYTES);
    AMX_STORE(3, sums[3], AMX_ROW_BYTES);
}

/* Pack up to TILE rows of x as a right operand: pairs of depths by tokens, zero-padded. */
static void pack_tokens(const void *const *x, int64_t count, int64_t depth, uint16_t *to) {
    for (int64_t k = 0; k < depth; k += DEPTH, to += TILE_NUMBERS) {
        vf rows[TILE];
        for (int64_t i = 0; i < TILE; i++)
            rows[i] = i < count ? vf_load_pairs((const uint16_t *)x[i] + k, depth - k)
                                : vf_set1(0.0f);
        vf_transpose(rows);
        for (int64_t i = 0; i < TILE; i++)
            vf_store((float *)(void *)(to + i * DEPTH), rows[i]);
    }
}

/* --------------------------------------------------------------- columns of h */

typedef struct scratch_places {
    float (*sums)[SUMS];
    uint16_t *tokens;
    float *biases, *parts;
} scratch_places;

static int64_t tokens_bytes(const att_moe_problem *p) {
    return GROUPS * TILE * padded(p->hidden) * (int64_t)sizeof(uint16_t);
}

static scratch_places places_of(const att_moe_job *job, void *scratch) {
    char *at = scratch;
    char *tokens = at + 4 * SUMS * sizeof(float);
    char *rest = tokens + tokens_bytes(job->p);
    return (scratch_places){.sums = (float(*)[SUMS])(void *)at,
                            .tokens = (uint16_t *)(void *)tokens,
                            .biases = (float *)(void *)rest,
                            .parts = (float *)(void *)rest};
}

static size_t tasks_scratch(const att_moe_problem *p, const att_moe_cut *cut) {
    const int64_t first = 2 * cut->inner_block;
    const int64_t second = cut->positions * cut->hidden_block;
    return 4 * SUMS * sizeof(float) + (size_t)tokens_bytes(p) +
           sizeof(float) * (size_t)att_max(first, second);
}

static size_t h_bytes(const att_moe_problem *p) {
    return (size_t)padded(p->inner) * sizeof(uint16_t);
}

/* Columns [begin, begin + columns) of h of a group of tokens, from its sums; zeros past
 * `inner`. */
typedef struct h_store {
    const att_moe_problem *p;
    const float *gate_bias, *up_bias; /* NULL: none; of the first column */
    int64_t begin, columns;
    uint16_t *h; /* of the group's block of positions */
} h_store;

static vf h_row(const h_store *s, const float *gates, const float *ups, int64_t c) {
    if (c >= s->columns)
        return vf_set1(0.0f);
    vf gate = vf_load(gates + c * TILE), up = vf_load(ups + c * TILE);
    if (s->gate_bias) {
        gate = vf_add(gate, vf_set1(s->gate_bias[c]));
        up = vf_add(up, vf_set1(s->up_bias[c]));
    }
    return vf_activate(s->p, gate, up);
}

static void store_h(const h_store *s, const float *gates, const float *ups) {
    for (int64_t c = 0; c < TILE; c += 2) {
        const vf pair = vf_round_pairs(h_row(s, gates, ups, c), h_row(s, gates, ups, c + 1));
        vf_store((float *)(void *)(s->h + (s->begin + c) * TILE), pair);
    }
}

static weight_rows rows_from(const att_moe_matrix *m, int64_t first, int64_t columns) {
    const int64_t count = att_max(0, att_min(TILE, columns - first));
    return (weight_rows){m->w + (count ? first : 0) * m->step, m->step, count};
}

/* Compute columns from `begin` on, with which the matrices start, for `groups` groups of tokens
 * from `position` on, packed in `at->tokens`. */
static void fill_h(const att_moe_job *job, const att_moe_matrix *gate, const att_moe_matrix *up,
                   int64_t begin, int64_t columns, int64_t position, int groups,
                   const scratch_places *at) {
    const att_moe_problem *p = job->p;
    const bool gated = att_moe_is_gated(p), biased = p->features & ATT_MOE_BIAS1;
    const int64_t inner = padded(p->inner), block = job->cut->inner_block;
    const int64_t width = gated ? TILE : 2 * TILE;
    for (int64_t c = 0; c < padded(columns); c += width) {
        const weight_rows rows[2] = {
            rows_from(gate, c, columns),
            gated ? rows_from(up, c, columns) : rows_from(gate, c + TILE, columns)};
        multiply_tiles(rows, p->hidden, at->tokens, groups, at->sums);
        for (int g = 0; g < groups; g++)
            for (int half = 0; half < (gated ? 1 : 2); half++) {
                const int64_t first = c + half * TILE;
                const h_store s = {.p = p,
                                   .gate_bias = biased ? at->biases + first : NULL,
                                   .up_bias = at->biases + block + first,
                                   .begin = begin + first,
                                   .columns = columns - first,
                                   .h = (uint16_t *)job->h + (position + g * TILE) * inner};
                store_h(&s, at->sums[2 * half + g], at->sums[2 + g]);
            }
    }
}

static void run_first(const att_moe_job *job, int64_t task, void *scratch) {
    const att_moe_problem *p = job->p;
    const int64_t blocks = job->cut->inner_blocks, block = job->cut->inner_block;
    const int64_t e = job->active[task / blocks], begin = task % blocks * block;
    const int64_t columns = att_min(block, p->inner - begin);
    const scratch_places at = places_of(job, scratch);
    const att_moe_matrix gate = att_moe_gate_of(p, job->a, e, begin),
                         up = att_moe_up_of(p, job->a, e, begin);
    const int64_t end = job->starts[e] + job->lengths[e];
    att_moe_load_bias(&gate, columns, at.biases);
    att_moe_load_bias(&up, columns, at.biases + block);
    amx_enter();
    for (int64_t n = job->starts[e]; n < end; n += GROUPS * TILE) {
        const void *x[GROUPS * TILE];
        const int64_t tokens = att_min(GROUPS * TILE, end - n);
        const int groups = (int)att_ceil_div(tokens, TILE);
        for (int64_t i = 0; i < tokens; i++)
            x[i] = att_moe_x_row(job, att_moe_token_at(job, n + i));
        for (int64_t g = 0; g < groups; g++)
            pack_tokens(x + g * TILE, att_min(TILE, tokens - g * TILE), p->hidden,
                        at.tokens + g * TILE * padded(p->hidden));
        fill_h(job, &gate, &up, begin, columns, n, groups, &at);
    }
    amx_leave();
}

/* --------------------------------------------------------------- columns of y */

/* Store a tile of sums, columns by tokens, as rows of parts: `columns` of each. */
static void store_parts(const float *sums, int64_t columns, float *parts, int64_t step) {
    vf rows[TILE];
    for (int i = 0; i < TILE; i++)
        rows[i] = vf_load(sums + i * TILE);
    vf_transpose(rows);
    for (int i = 0; columns > 0 && i < TILE; i++)
        vf_store_as(parts + i * step, ATT_F32, rows[i], columns);
}

static void multiply_expert(const att_moe_job *job, int64_t e, int64_t begin, int64_t columns,
                            const scratch_places *at) {
    const att_moe_problem *p = job->p;
    const att_moe_matrix down = att_moe_down_of(p, job->a, e, begin);
    const int64_t end = job->starts[e] + job->lengths[e], inner = padded(p->inner);
    for (int64_t c = 0; c < columns; c += 2 * TILE) {
        const weight_rows rows[2] = {rows_from(&down, c, columns),
                                     rows_from(&down, c + TILE, columns)};
        for (int64_t n = job->starts[e]; n < end; n += GROUPS * TILE) {
            const int groups = (int)att_ceil_div(att_min(GROUPS * TILE, end - n), TILE);
            multiply_tiles(rows, p->inner, (const uint16_t *)job->h + n * inner, groups,
                           at->sums);
            for (int i = 0; i < 2; i++)
                for (int g = 0; g < groups; g++)
                    store_parts(at->sums[2 * i + g], columns - c - i * TILE,
                                at->parts + (n + g * TILE) * columns + c + i * TILE, columns);
        }
    }
}

static void run_second(const att_moe_job *job, int64_t task, void *scratch) {
    const int64_t block = job->cut->hidden_block, begin = task * block;
    const int64_t columns = att_min(block, job->p->hidden - begin);
    const scratch_places at = places_of(job, scratch);
    amx_enter();
    for (int64_t n = 0; n < job->active_count; n++)
        multiply_expert(job, job->active[n], begin, columns, &at);
    amx_leave();
    combine_tokens(job, begin, columns, at.parts, columns);
}

#endif
