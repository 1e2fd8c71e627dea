/* tile_body.h: the walker of the blocked kernels: online softmax over blocks of keys.
 *
 *   pack Q
 *   for each block of TILE_KEYS keys that some row of the task sees
 *       pack K and V of the block
 *       for each strip of TILE_STRIP rows, over only the keys that the strip sees
 *           scores -> logits -> weights, raise the maximum and rescale if needed, accumulate
 *           after its last block: finish the rows, or keep them for the merge of the splits
 *
 * The strips form a pipeline: while the vector units weigh strip i, row by row, the steps of
 * the sums of strip i-1 and of the scores of strip i+1 are issued in between, for the matrix
 * unit. The steps are small, because the processor looks ahead only a few hundred instructions.
 * Once the sums of strip i-1 are complete, its rows are settled. Meanwhile the keys of the next
 * block are prefetched:
 *
 *   products   S0 | S1     | O0 S2    | O1 S3    | ... | On
 *   vectors       | rows 0 | rows 1   | rows 2   | ... |
 *                 |        |  settle 0|  settle 1| ... | settle n */
#ifndef ATT_CPU_TILE_BODY_H
#define ATT_CPU_TILE_BODY_H

#include <string.h>

#include "attention/cpu/finish_body.h"
#include "attention/cpu/hidden_ends.h"
#include "attention/cpu/kernel.h"
#include "attention/cpu/tile.h"

/* Allocate 64-byte aligned pieces of the scratch; with base NULL, only count. */
static void *take(char *base, size_t *used, size_t bytes) {
    char *piece = base ? base + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return piece;
}

static size_t tile_map(tile *t, row_state **state, const att_problem *p, int64_t rows,
                       char *scratch) {
    size_t used = 0;
    t->padded_rows = att_round_up(rows, TILE_STRIP);
    t->o_stride = tile_o_stride(p);
    t->q = take(scratch, &used, tile_q_bytes(p, t->padded_rows));
    t->k = take(scratch, &used, tile_k_bytes(p));
    t->v = take(scratch, &used, tile_v_bytes(p));
    for (int i = 0; i < 2; i++) {
        t->p[i] = take(scratch, &used, tile_p_bytes(p));
        t->s[i] = take(scratch, &used, sizeof(float) * TILE_STRIP * TILE_KEYS);
        t->blocks[i].rows_k = take(scratch, &used, sizeof *t->blocks[i].rows_k * TILE_KEYS);
        t->blocks[i].rows_v = take(scratch, &used, sizeof *t->blocks[i].rows_v * TILE_KEYS);
    }
    t->sums = take(scratch, &used, tile_sums_bytes(p));
    t->o = take(scratch, &used, sizeof(float) * (size_t)(t->padded_rows * t->o_stride));
    *state = take(scratch, &used, sizeof **state * (size_t)t->padded_rows);
    t->seen = take(scratch, &used, sizeof *t->seen * (size_t)t->padded_rows);
    t->strips = take(scratch, &used, sizeof *t->strips * (size_t)(t->padded_rows / TILE_STRIP));
    return used;
}

static size_t tile_scratch(const att_problem *p, int64_t rows) {
    tile t;
    row_state *state;
    return tile_map(&t, &state, p, rows, NULL);
}

/* One specialisation of the packing per dtype. */
static void tile_pack_q(const tile *t) {
    if (t->job->p->dtype == ATT_F32)
        pack_q_as(t, ATT_F32);
    else if (t->job->p->dtype == ATT_F16)
        pack_q_as(t, ATT_F16);
    else
        pack_q_as(t, ATT_BF16);
}

static void tile_pack_kv(const tile *t, int64_t from, int64_t to) {
    if (t->job->p->dtype == ATT_F32) {
        pack_k_as(t, from, to, ATT_F32);
        pack_v_as(t, from, to, ATT_F32);
    } else if (t->job->p->dtype == ATT_F16) {
        pack_k_as(t, from, to, ATT_F16);
        pack_v_as(t, from, to, ATT_F16);
    } else {
        pack_k_as(t, from, to, ATT_BF16);
        pack_v_as(t, from, to, ATT_BF16);
    }
}

/* The block that begins with key j0 of the task's split; n = 0 if there is none. */
static void block_begin(const tile *t, key_block *b, int64_t j0) {
    const att_cpu_job *job = t->job;
    b->j0 = j0;
    b->n = att_max(0, att_min(TILE_KEYS, t->keys.hi - j0));
    b->fetched = 0;
    if (b->n > 0) {
        att_cpu_kv_rows(job, &t->task.s, job->a->k, &job->p->k, j0, b->n, b->rows_k);
        att_cpu_kv_rows(job, &t->task.s, job->a->v, &job->p->v, j0, b->n, b->rows_v);
    }
}

/* Prefetch `count` more keys of a block. Packing reads them in an order that the processor does
 * not predict. */
static void block_fetch(const tile *t, key_block *b, int64_t count) {
    enum { LINE = 64 };
    const int64_t bytes = att_dtype_bytes(t->job->p->dtype);
    const int64_t k_bytes = t->job->p->d_qk * bytes, v_bytes = t->job->p->d_v * bytes;
    for (; count > 0 && b->fetched < b->n; count--, b->fetched++) {
        for (int64_t x = 0; x < k_bytes; x += LINE)
            __builtin_prefetch(b->rows_k[b->fetched] + x, 0, 2);
        for (int64_t x = 0; x < v_bytes; x += LINE)
            __builtin_prefetch(b->rows_v[b->fetched] + x, 0, 2);
    }
}

static void block_pack(const tile *t, key_block *b) {
    for (int64_t j = 0; j < b->n; j += TILE_PACK) {
        block_fetch(t, b, j + 2 * TILE_PACK - b->fetched);
        tile_pack_kv(t, j, att_min(j + TILE_PACK, b->n));
    }
}

/* The keys that the rows of a strip see in total and in common. */
static strip_keys keys_of_strip(const tile *t, int64_t row0) {
    strip_keys keys = {.any = {INT64_MAX, 0}, .all = {0, INT64_MAX}, .begun = false};
    for (int64_t r = row0; r < att_min(row0 + TILE_STRIP, t->task.rows); r++) {
        const att_cpu_interval seen = t->seen[r];
        if (seen.hi > seen.lo) {
            keys.any.lo = att_min(keys.any.lo, seen.lo);
            keys.any.hi = att_max(keys.any.hi, seen.hi);
        }
        keys.all.lo = att_max(keys.all.lo, seen.lo);
        keys.all.hi = att_min(keys.all.hi, seen.hi);
    }
    return keys;
}

/* Initialise the task's rows and return the keys that this split walks. */
static att_cpu_interval tile_begin(const tile *t, row_state *state) {
    const att_problem *p = t->job->p;
    for (int64_t r = 0; r < t->task.rows; r++) {
        const att_cpu_query q = att_cpu_query_of(t->job, &t->task.s, t->task.row0 + r);
        t->seen[r] = att_cpu_without_hidden_ends(t->job, &t->task.s, q,
                                                 att_cpu_visible(p, &t->task.s, q.position));
        row_start(&state[r]);
    }
    att_cpu_interval any = {INT64_MAX, 0};
    for (int64_t row0 = 0; row0 < t->task.rows; row0 += TILE_STRIP) {
        const strip_keys keys = keys_of_strip(t, row0);
        t->strips[row0 / TILE_STRIP] = keys;
        any.lo = att_min(any.lo, keys.any.lo);
        any.hi = att_max(any.hi, keys.any.hi);
    }
    return att_cpu_split_of(t->job, t->task.split, any, TILE_KEYS);
}

/* Prefetch the bias of a row for the next block of keys. The rows of a bias are too far apart for
 * the processor to look ahead by itself. Always inline: gcc drops calls of a function that does
 * nothing but prefetch. */
VF_INLINE void bias_fetch(const tile *t, att_cpu_query q, int64_t row) {
    enum { LINE = 64 };
    const att_problem *p = t->job->p;
    const int64_t bytes = att_dtype_bytes(p->bias_dtype), from = t->next->j0,
                  to = att_min(from + t->next->n, t->seen[row].hi);
    const char *first = (const char *)t->job->a->bias +
                        att_cpu_bias_offset(p, &t->task.s, q.head, q.position) * bytes;
    if (p->bias.col == 1)
        for (int64_t x = from * bytes; x < to * bytes; x += LINE)
            __builtin_prefetch(first + x, 0, 2);
}

/* Shape and mask the scores of row r of a strip. */
static void tile_prepare_row(const tile *t, const strip *st, int64_t r) {
    const int64_t row = st->row0 + r, j0 = t->now->j0;
    float *s = t->s[st->slot] + r * TILE_KEYS;
    const int64_t lo = att_max(t->seen[row].lo - j0, st->from),
                  hi = att_min(t->seen[row].hi - j0, st->end);
    if (t->shaped && hi > lo) {
        const att_cpu_query q = att_cpu_query_of(t->job, &t->task.s, t->task.row0 + row);
        shape_row(t->job, &t->task.s, q.head, q.position, s, j0, lo, hi);
        if (t->job->p->features & ATT_BIAS)
            bias_fetch(t, q, row);
    }
    mask_row(s, st->from, st->to, lo, hi);
}

/* Turn the scores of row r of a strip into weights. */
static void tile_softmax_row(const tile *t, row_state *state, const strip *st, int64_t r,
                             product *between, int64_t steps) {
    if (t->shaped || st->masked)
        tile_prepare_row(t, st, r);
    if (st->from == 0 && st->to == TILE_KEYS)
        tile_weigh(t, &state[st->row0 + r], st, r, 0, TILE_KEYS, between, steps);
    else
        tile_weigh(t, &state[st->row0 + r], st, r, st->from, st->to, between, steps);
}

/* Row r of a strip has its sums: add them to o, and finish the row after its last block. */
static void tile_settle_row(const tile *t, const row_state *state, const strip *st, int64_t r) {
    const int64_t row = st->row0 + r;
    tile_fold(t, st, r);
    if (st->last)
        end_row(t->job, &t->task, row, t->o + row * t->o_stride, state[row].top,
                row_sum(&state[row]));
}

/* The first strip from `row0` on that sees a key of the block; rows = 0 if there is none. */
static strip next_strip(const tile *t, int64_t row0, int slot) {
    const key_block *b = t->now;
    for (; row0 < t->task.rows; row0 += TILE_STRIP) {
        strip_keys *keys = &t->strips[row0 / TILE_STRIP];
        const int64_t lo = att_max(keys->any.lo - b->j0, 0),
                      hi = att_min(keys->any.hi - b->j0, b->n);
        if (lo >= hi)
            continue;
        strip st = {.row0 = row0, .rows = att_min(TILE_STRIP, t->task.rows - row0)};
        st.from = lo / TILE_STEP * TILE_STEP;
        st.to = att_round_up(hi, TILE_STEP);
        st.end = hi;
        st.masked =
            keys->all.lo - b->j0 > st.from || keys->all.hi - b->j0 < st.to || b->n < st.to;
        st.first = !keys->begun;
        st.last = att_min(keys->any.hi, t->keys.hi) <= b->j0 + b->n;
        st.slot = slot;
        keys->begun = true;
        return st;
    }
    return (strip){.rows = 0};
}

/* Spreads `count` items evenly over `turns`. */
typedef struct pace {
    int64_t count, turns, rest;
} pace;

/* How many of them are due in the next turn. */
static inline int64_t pace_next(pace *p) {
    int64_t due = 0;
    for (p->rest += p->count; p->rest >= p->turns; p->rest -= p->turns)
        due++;
    return due;
}

/* Weigh strip `now`. Between its rows, step through the sums of `before`, then the scores of
 * `after`; once the sums are complete, settle them. Prefetch `fetch` more keys of the next
 * block. */
static void tile_weave(const tile *t, row_state *state, const strip *before, const strip *now,
                       const strip *after, int64_t fetch) {
    const product scores = tile_scores(t, after);
    product work = tile_sums(t, before);
    work.then = &scores;
    int64_t sums_left = work.left, settled = 0;
    pace steps = {.count = work.left + scores.left, .turns = now->rows};
    pace settling = {.count = before->rows, .turns = scores.left};
    pace fetching = {.count = fetch, .turns = now->rows};
    for (int64_t r = 0; r < now->rows; r++) {
        const int64_t some = pace_next(&steps);
        tile_softmax_row(t, state, now, r, &work, some);
        sums_left -= some;
        for (; sums_left < 0; sums_left++) /* once per step of the scores */
            for (int64_t due = pace_next(&settling); due > 0; due--)
                tile_settle_row(t, state, before, settled++);
        block_fetch(t, t->next, pace_next(&fetching));
    }
    for (; settled < before->rows; settled++)
        tile_settle_row(t, state, before, settled);
}

/* All strips against t->now. */
static void tile_block(const tile *t, row_state *state) {
    strip before = {.rows = 0}, now = next_strip(t, 0, 0);
    product first = tile_scores(t, &now);
    product_steps(&first, first.left);
    while (now.rows) {
        const strip after = next_strip(t, now.row0 + TILE_STRIP, !now.slot);
        const int64_t strips = att_ceil_div(t->task.rows - now.row0, TILE_STRIP);
        tile_weave(t, state, &before, &now, &after,
                   att_ceil_div(t->next->n - t->next->fetched, strips));
        before = now;
        now = after;
    }
    product last = tile_sums(t, &before);
    product_steps(&last, last.left);
    for (int64_t r = 0; r < before.rows; r++)
        tile_settle_row(t, state, &before, r);
}

/* Rows of strips that saw no key at all. */
static void tile_end_unseen(const tile *t, const row_state *state) {
    for (int64_t row = 0; row < t->task.rows; row++) {
        if (t->strips[row / TILE_STRIP].begun)
            continue;
        float *o = t->o + row * t->o_stride;
        memset(o, 0, sizeof *o * (size_t)t->o_stride);
        end_row(t->job, &t->task, row, o, state[row].top, row_sum(&state[row]));
    }
}

static void tile_run(const att_cpu_job *job, int64_t index, void *scratch) {
    tile t = {.job = job, .task = att_cpu_task_of(job, index)};
    t.shaped = logits_are_shaped(job->p);
    t.factor = logit_factor(job->p);
    if (t.task.rows <= 0)
        return;
    row_state *state;
    tile_map(&t, &state, job->p, t.task.rows, scratch);
    t.keys = tile_begin(&t, state);
    if (t.keys.hi > t.keys.lo)
        tile_pack_q(&t);
    t.now = &t.blocks[0];
    t.next = &t.blocks[1];
    block_begin(&t, t.now, t.keys.lo);
    while (t.now->n > 0) {
        block_pack(&t, t.now);
        block_begin(&t, t.next, t.now->j0 + TILE_KEYS);
        tile_block(&t, state);
        key_block *spare = t.now;
        t.now = t.next;
        t.next = spare;
    }
    tile_end_unseen(&t, state);
}

#endif
