/* tile_body.h: the walker of the blocked kernels: online softmax over blocks of keys.
 *
 *   pack Q
 *   for each block of TILE_KEYS keys that some row of the task sees
 *       pack K and V of the block
 *       for each strip of TILE_STRIP rows, over only the keys that the strip sees
 *           scores -> logits -> weights, raise the maximum and rescale where needed, accumulate
 *   finish the rows, or keep them for the merge where the keys are split
 *
 * The strips form a pipeline: while the vector units weigh strip i, row by row, the steps of
 * the scores of strip i+1 and of the sums of strip i-1 are issued in between, for the matrix
 * unit to work on. The steps are small, because the processor looks ahead over some hundreds of
 * instructions and no further:
 *
 *   products   S0 | S1     | O0 S2    | O1 S3    | ... | On
 *   softmax       | rows 0 | rows 1   | rows 2   | ... |            */
#ifndef ATT_CPU_TILE_BODY_H
#define ATT_CPU_TILE_BODY_H

#include <string.h>

#include "cpu/finish_body.h"
#include "cpu/kernel.h"
#include "cpu/tile.h"

/* Hand out 64-byte aligned pieces of the scratch; with base NULL only counts. */
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
    for (int slot = 0; slot < 2; slot++) {
        t->p[slot] = take(scratch, &used, tile_p_bytes(p));
        t->s[slot] = take(scratch, &used, sizeof(float) * TILE_STRIP * TILE_KEYS);
    }
    t->sums = take(scratch, &used, tile_sums_bytes(p));
    t->o = take(scratch, &used, sizeof(float) * (size_t)(t->padded_rows * t->o_stride));
    *state = take(scratch, &used, sizeof **state * (size_t)t->padded_rows);
    t->seen = take(scratch, &used, sizeof *t->seen * (size_t)t->padded_rows);
    t->strips = take(scratch, &used, sizeof *t->strips * (size_t)(t->padded_rows / TILE_STRIP));
    t->rows_k = take(scratch, &used, sizeof *t->rows_k * TILE_KEYS);
    t->rows_v = take(scratch, &used, sizeof *t->rows_v * TILE_KEYS);
    return used;
}

static size_t tile_scratch(const att_problem *p, int64_t rows) {
    tile t;
    row_state *state;
    return tile_map(&t, &state, p, rows, NULL);
}

/* One specialisation of the packing a dtype. */
static void tile_pack_q(const tile *t) {
    if (t->job->p->dtype == ATT_F32)
        pack_q_as(t, ATT_F32);
    else if (t->job->p->dtype == ATT_F16)
        pack_q_as(t, ATT_F16);
    else
        pack_q_as(t, ATT_BF16);
}

static void tile_pack_kv(const tile *t, int64_t n) {
    if (t->job->p->dtype == ATT_F32) {
        pack_k_as(t, n, ATT_F32);
        pack_v_as(t, n, ATT_F32);
    } else if (t->job->p->dtype == ATT_F16) {
        pack_k_as(t, n, ATT_F16);
        pack_v_as(t, n, ATT_F16);
    } else {
        pack_k_as(t, n, ATT_BF16);
        pack_v_as(t, n, ATT_BF16);
    }
}

/* What the rows of a strip see between them and in common. */
static strip_keys keys_of_strip(const tile *t, int64_t row0) {
    strip_keys keys = {.any = {INT64_MAX, 0}, .all = {0, INT64_MAX}};
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

/* Start the task's rows and return the keys this split walks over. */
static att_cpu_interval tile_begin(const tile *t, row_state *state) {
    const att_problem *p = t->job->p;
    const int64_t group = t->job->t->group;
    for (int64_t r = 0; r < t->task.rows; r++) {
        t->seen[r] = att_cpu_visible(p, &t->task.s, (t->task.row0 + r) / group);
        row_start(&state[r]);
    }
    memset(t->o, 0, sizeof(float) * (size_t)(t->padded_rows * t->o_stride));
    att_cpu_interval any = {INT64_MAX, 0};
    for (int64_t row0 = 0; row0 < t->task.rows; row0 += TILE_STRIP) {
        const strip_keys keys = keys_of_strip(t, row0);
        t->strips[row0 / TILE_STRIP] = keys;
        any.lo = att_min(any.lo, keys.any.lo);
        any.hi = att_max(any.hi, keys.any.hi);
    }
    return att_cpu_split_of(t->job, t->task.split, any, TILE_KEYS);
}

/* Shape and mask the scores of row r of a strip. */
static void tile_prepare_row(const tile *t, const strip *st, int64_t r, int64_t j0) {
    const int64_t row = st->row0 + r;
    float *s = t->s[st->slot] + r * TILE_KEYS;
    const int64_t lo = att_max(t->seen[row].lo - j0, st->from),
                  hi = att_min(t->seen[row].hi - j0, st->end);
    if (t->shaped && hi > lo) {
        const att_cpu_query q = att_cpu_query_of(t->job, &t->task.s, t->task.row0 + row);
        shape_row(t->job, &t->task.s, q.head, q.position, s, j0, lo, hi);
    }
    mask_row(s, st->from, st->to, lo, hi);
}

/* Logits s[from..to) to weights; the bounds are constants where this is inlined for a whole
 * block. */
VF_INLINE void tile_softmax_keys(const tile *t, row_state *state, const strip *st, int64_t r,
                                 const int64_t from, const int64_t to) {
    const int64_t row = st->row0 + r;
    keep_max(&state[row], t->s[st->slot] + r * TILE_KEYS, from, to, t->factor,
             t->o + row * t->o_stride, t->o_stride);
    tile_weigh(t, &state[row], st, r, from, to);
}

/* Scores of row r of a strip to weights. */
static void tile_softmax_row(const tile *t, row_state *state, const strip *st, int64_t r,
                             int64_t j0) {
    if (t->shaped || st->masked)
        tile_prepare_row(t, st, r, j0);
    if (st->from == 0 && st->to == TILE_KEYS)
        tile_softmax_keys(t, state, st, r, 0, TILE_KEYS);
    else
        tile_softmax_keys(t, state, st, r, st->from, st->to);
}

/* The first strip at or below `row0` that sees a key of the block; rows = 0 where there is
 * none. */
static strip next_strip(const tile *t, int64_t row0, int64_t j0, int64_t n, int slot) {
    for (; row0 < t->task.rows; row0 += TILE_STRIP) {
        const int64_t rows = att_min(TILE_STRIP, t->task.rows - row0);
        const att_cpu_interval any = t->strips[row0 / TILE_STRIP].any;
        const att_cpu_interval all = t->strips[row0 / TILE_STRIP].all;
        const int64_t lo = att_max(any.lo - j0, 0), hi = att_min(any.hi - j0, n);
        const int64_t from = lo / TILE_STEP * TILE_STEP, to = att_round_up(hi, TILE_STEP);
        const bool masked = all.lo - j0 > from || all.hi - j0 < to || n < to;
        if (lo < hi)
            return (strip){row0, rows, from, to, hi, masked, slot};
    }
    return (strip){.rows = 0};
}

/* Goes over the parts of a strip's scores or sums, and the steps of each. */
typedef struct cursor {
    int64_t at;   /* first key or column of the part */
    int64_t step; /* of the part */
    int64_t steps, left;
} cursor;

static cursor score_cursor(const tile *t, const strip *st) {
    if (st->rows == 0)
        return (cursor){.left = 0};
    const int64_t first = st->from / TILE_PART, parts = att_ceil_div(st->to, TILE_PART) - first;
    const int64_t steps = tile_score_steps(t);
    return (cursor){.at = first * TILE_PART, .steps = steps, .left = parts * steps};
}

static cursor sum_cursor(const tile *t, const strip *st) {
    if (st->rows == 0)
        return (cursor){.left = 0};
    const int64_t parts = att_ceil_div(t->job->p->d_v, TILE_PART),
                  steps = tile_sum_steps(t, st);
    return (cursor){.at = 0, .steps = steps, .left = parts * steps};
}

static void advance(cursor *c) {
    c->left--;
    if (++c->step == c->steps) {
        c->step = 0;
        c->at += TILE_PART;
    }
}

static void score_step(const tile *t, const strip *st, cursor *c) {
    tile_scores(t, st, c->at, att_min(c->at + TILE_PART, st->to), c->step);
    advance(c);
}

static void sum_step(const tile *t, const strip *st, cursor *c) {
    tile_accumulate(t, st, c->at, c->step);
    advance(c);
}

/* Weigh strip `now`; between its rows, step through the sums of `before` and the scores of
 * `after`. */
static void tile_weave(const tile *t, row_state *state, const strip *before, const strip *now,
                       const strip *after, int64_t j0) {
    cursor sums = sum_cursor(t, before), scores = score_cursor(t, after);
    const int64_t steps = sums.left + scores.left;
    int64_t r = 0;
    for (int64_t step = 1; step <= steps; step++) {
        if (sums.left)
            sum_step(t, before, &sums);
        else
            score_step(t, after, &scores);
        for (; r * steps < now->rows * step; r++)
            tile_softmax_row(t, state, now, r, j0);
    }
    for (; r < now->rows; r++) /* nothing to weave in */
        tile_softmax_row(t, state, now, r, j0);
    tile_fold(t, before);
}

static void tile_block(const tile *t, row_state *state, int64_t j0, int64_t n) {
    const att_cpu_job *job = t->job;
    att_cpu_kv_rows(job, &t->task.s, job->a->k, &job->p->k, j0, n, t->rows_k);
    att_cpu_kv_rows(job, &t->task.s, job->a->v, &job->p->v, j0, n, t->rows_v);
    tile_pack_kv(t, n);
    strip before = {.rows = 0}, now = next_strip(t, 0, j0, n, 0);
    for (cursor c = score_cursor(t, &now); c.left;)
        score_step(t, &now, &c);
    while (now.rows) {
        const strip after = next_strip(t, now.row0 + TILE_STRIP, j0, n, !now.slot);
        tile_weave(t, state, &before, &now, &after, j0);
        before = now;
        now = after;
    }
    for (cursor c = sum_cursor(t, &before); c.left;)
        sum_step(t, &before, &c);
    tile_fold(t, &before);
}

static void tile_run(const att_cpu_job *job, int64_t index, void *scratch) {
    tile t = {.job = job, .task = att_cpu_task_of(job, index)};
    t.shaped = logits_are_shaped(job->p);
    t.factor = logit_factor(job->p);
    if (t.task.rows <= 0)
        return;
    row_state *state;
    tile_map(&t, &state, job->p, t.task.rows, scratch);
    const att_cpu_interval keys = tile_begin(&t, state);
    if (keys.hi > keys.lo)
        tile_pack_q(&t);
    for (int64_t j0 = keys.lo; j0 < keys.hi; j0 += TILE_KEYS)
        tile_block(&t, state, j0, att_min(TILE_KEYS, keys.hi - j0));
    for (int64_t r = 0; r < t.task.rows; r++)
        end_row(job, &t.task, r, t.o + r * t.o_stride, state[r].top, row_sum(&state[r]));
}

#endif
