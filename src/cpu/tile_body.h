/* tile_body.h: the walker of the blocked kernels: online softmax over blocks of keys.
 *
 *   pack Q
 *   for each block of TILE_KEYS keys that some row of the task sees
 *       pack K and V of the block
 *       for each strip of TILE_STRIP rows, over only the keys that the strip sees
 *           scores -> logits -> weights, raise the maximum and rescale where needed, accumulate
 *   finish the rows, or keep them for the merge where the keys are split
 *
 * The strips form a pipeline: while the vector units weigh strip i, row by row, the steps of the scores of
 * strip i+1 and of the sums of strip i-1 are issued in between, for the matrix unit to work on. The steps are
 * small, because the processor looks ahead over some hundreds of instructions and no further:
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
    t->rows_k = take(scratch, &used, sizeof *t->rows_k * TILE_KEYS);
    t->rows_v = take(scratch, &used, sizeof *t->rows_v * TILE_KEYS);
    return used;
}

static size_t tile_scratch(const att_problem *p, int64_t rows) {
    tile t;
    row_state *state;
    return tile_map(&t, &state, p, rows, NULL);
}

/* The keys that some of rows r0 .. r1-1 see (`any`) and that all of them see (`all`); empty where hi <= lo. */
static void seen_by(const tile *t, int64_t r0, int64_t r1, att_cpu_interval *any,
                    att_cpu_interval *all) {
    *any = (att_cpu_interval){INT64_MAX, 0};
    *all = (att_cpu_interval){0, INT64_MAX};
    for (int64_t r = r0; r < r1; r++) {
        const att_cpu_interval seen = t->seen[r];
        if (seen.hi > seen.lo) {
            any->lo = att_min(any->lo, seen.lo);
            any->hi = att_max(any->hi, seen.hi);
        }
        all->lo = att_max(all->lo, seen.lo);
        all->hi = att_min(all->hi, seen.hi);
    }
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
    att_cpu_interval any, all;
    seen_by(t, 0, t->task.rows, &any, &all);
    return att_cpu_split_of(t->job, t->task.split, any, TILE_KEYS);
}

/* Shape and mask the scores of row r of a strip. */
static void tile_prepare_row(const tile *t, const strip *st, int64_t r, int64_t j0) {
    const int64_t row = st->row0 + r;
    float *s = t->s[st->slot] + r * TILE_KEYS;
    const int64_t lo = att_max(t->seen[row].lo - j0, st->from),
                  hi = att_min(t->seen[row].hi - j0, st->end);
    if (t->shaped && hi > lo) {
        const int64_t group = t->job->t->group, packed = t->task.row0 + row;
        shape_row(t->job, &t->task.s, t->task.s.head_kv * group + packed % group,
                  packed / group, s, j0, lo, hi);
    }
    mask_row(s, st->from, st->to, lo, hi);
}

/* Logits s[from..to) to weights; the bounds are constants where this is inlined for a whole block. */
VF_INLINE void tile_softmax_keys(const tile *t, row_state *state, const strip *st, int64_t r,
                                 const int64_t from, const int64_t to) {
    const int64_t row = st->row0 + r;
    const vf lanes = max_lanes(t->s[st->slot] + r * TILE_KEYS, from, to);
    if (__builtin_expect(vf_any_above(lanes, state[row].bound), 0))
        raise_max(&state[row], lanes, t->factor, t->o + row * t->o_stride, t->o_stride);
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

/* The first strip at or below `row0` that sees a key of the block; rows = 0 where there is none. */
static strip next_strip(const tile *t, int64_t row0, int64_t j0, int64_t n, int slot) {
    for (; row0 < t->task.rows; row0 += TILE_STRIP) {
        const int64_t rows = att_min(TILE_STRIP, t->task.rows - row0);
        att_cpu_interval any, all;
        seen_by(t, row0, row0 + rows, &any, &all);
        const int64_t lo = att_max(any.lo - j0, 0), hi = att_min(any.hi - j0, n);
        const int64_t from = lo / TILE_STEP * TILE_STEP, to = att_round_up(hi, TILE_STEP);
        const bool masked = all.lo - j0 > from || all.hi - j0 < to || n < to;
        if (lo < hi)
            return (strip){row0, rows, from, to, hi, masked, slot};
    }
    return (strip){.rows = 0};
}

/* The steps of a strip's scores, part by part. */
static int64_t score_units(const tile *t, const strip *st) {
    return st->rows
               ? (att_ceil_div(st->to, TILE_PART) - st->from / TILE_PART) * tile_score_steps(t)
               : 0;
}

static void score_unit(const tile *t, const strip *st, int64_t unit) {
    const int64_t steps = tile_score_steps(t), part = st->from / TILE_PART + unit / steps;
    tile_scores(t, st, part * TILE_PART, att_min((part + 1) * TILE_PART, st->to), unit % steps);
}

/* The steps of a strip's sums, part by part. */
static int64_t sum_units(const tile *t, const strip *st) {
    return st->rows ? att_ceil_div(t->job->p->d_v, TILE_PART) * tile_sum_steps(t, st) : 0;
}

static void sum_unit(const tile *t, const strip *st, int64_t unit) {
    const int64_t steps = tile_sum_steps(t, st);
    tile_accumulate(t, st, unit / steps * TILE_PART, unit % steps);
}

static void tile_block(const tile *t, row_state *state, int64_t j0, int64_t n) {
    const att_cpu_job *job = t->job;
    att_cpu_kv_rows(job, &t->task.s, job->a->k, &job->p->k, j0, n, t->rows_k);
    att_cpu_kv_rows(job, &t->task.s, job->a->v, &job->p->v, j0, n, t->rows_v);
    tile_pack_kv(t, n);
    strip before = {.rows = 0}, now = next_strip(t, 0, j0, n, 0);
    for (int64_t unit = 0, all = score_units(t, &now); unit < all; unit++)
        score_unit(t, &now, unit);
    while (now.rows) {
        const strip after = next_strip(t, now.row0 + TILE_STRIP, j0, n, !now.slot);
        const int64_t sums = sum_units(t, &before), units = sums + score_units(t, &after);
        int64_t r = 0;
        for (int64_t unit = 0; unit < units; unit++) {
            if (unit < sums)
                sum_unit(t, &before, unit);
            else
                score_unit(t, &after, unit - sums);
            for (; r * units < now.rows * (unit + 1); r++)
                tile_softmax_row(t, state, &now, r, j0);
        }
        tile_fold(t, &before);
        for (; r < now.rows; r++)
            tile_softmax_row(t, state, &now, r, j0);
        before = now;
        now = after;
    }
    for (int64_t unit = 0, all = sum_units(t, &before); unit < all; unit++)
        sum_unit(t, &before, unit);
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
        end_row(job, &t.task, r, t.o + r * t.o_stride, state[r].m, row_sum(&state[r]));
}

#endif
