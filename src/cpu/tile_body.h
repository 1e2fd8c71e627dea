/* tile_body.h: the walker of the blocked kernels: online softmax over blocks of keys.
 *
 *   pack Q
 *   for each block of TILE_KEYS keys that some row of the task sees
 *       pack K and V of the block
 *       for each strip of TILE_STRIP rows, over only the keys that the strip sees
 *           scores -> logits -> weights, raise the maximum and rescale where needed, accumulate
 *   finish the rows, or keep them for the merge where the keys are split */
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

static size_t tile_map(tile *t, const att_problem *p, int64_t rows, char *scratch) {
    size_t used = 0;
    t->padded_rows = att_round_up(rows, TILE_STRIP);
    t->o_stride = tile_o_stride(p);
    t->q = take(scratch, &used, tile_q_bytes(p, t->padded_rows));
    t->k = take(scratch, &used, tile_k_bytes(p));
    t->v = take(scratch, &used, tile_v_bytes(p));
    t->p = take(scratch, &used, tile_p_bytes(p));
    t->s = take(scratch, &used, sizeof(float) * TILE_STRIP * TILE_KEYS);
    t->o = take(scratch, &used, sizeof(float) * (size_t)(t->padded_rows * t->o_stride));
    t->m = take(scratch, &used, sizeof(float) * (size_t)t->padded_rows);
    t->l = take(scratch, &used, sizeof(float) * (size_t)t->padded_rows);
    t->seen = take(scratch, &used, sizeof *t->seen * (size_t)t->padded_rows);
    t->rows_k = take(scratch, &used, sizeof *t->rows_k * TILE_KEYS);
    t->rows_v = take(scratch, &used, sizeof *t->rows_v * TILE_KEYS);
    return used;
}

static size_t tile_scratch(const att_problem *p, int64_t rows) {
    tile t;
    return tile_map(&t, p, rows, NULL);
}

/* The keys that rows r0 .. r1-1 see between them, empty where hi <= lo. */
static att_cpu_interval seen_by(const tile *t, int64_t r0, int64_t r1) {
    att_cpu_interval all = {INT64_MAX, 0};
    for (int64_t r = r0; r < r1; r++) {
        if (t->seen[r].hi > t->seen[r].lo) {
            all.lo = att_min(all.lo, t->seen[r].lo);
            all.hi = att_max(all.hi, t->seen[r].hi);
        }
    }
    return all;
}

/* Start the task's rows and return the keys this split walks over. */
static att_cpu_interval tile_begin(tile *t) {
    const att_problem *p = t->job->p;
    const int64_t group = t->job->t->group;
    for (int64_t r = 0; r < t->task.rows; r++) {
        t->seen[r] = att_cpu_visible(p, &t->task.s, (t->task.row0 + r) / group);
        t->m[r] = -INFINITY;
        t->l[r] = 0.0f;
    }
    memset(t->o, 0, sizeof(float) * (size_t)(t->padded_rows * t->o_stride));
    return att_cpu_split_of(t->job, t->task.split, seen_by(t, 0, t->task.rows), TILE_KEYS);
}

/* Scores of row r0 + r of the strip to weights; [from, to) are the keys of the block the strip looks at. */
static void tile_softmax_row(const tile *t, int64_t r0, int64_t r, int64_t j0, int64_t n, int64_t from,
                             int64_t to) {
    const int64_t row = r0 + r, packed = t->task.row0 + row, group = t->job->t->group;
    float *s = t->s + r * TILE_KEYS;
    const int64_t lo = att_max(t->seen[row].lo - j0, from), hi = att_min(t->seen[row].hi - j0, n);
    if (t->shaped && hi > lo)
        shape_row(t->job, &t->task.s, t->task.s.head_kv * group + packed % group, packed / group, s, j0,
                  lo, hi);
    if (lo > from || hi < to)
        mask_row(s, from, to, lo, hi);
    const float top = max_row(s, from, to) * t->factor;
    const float alpha = raise_max(top, &t->m[row], &t->l[row]);
    if (alpha != 1.0f) {
        float *o = t->o + row * t->o_stride;
        for (int64_t x = 0; x < t->o_stride; x += VF_W)
            vf_store(o + x, vf_mul(vf_load(o + x), vf_set1(alpha)));
    }
    t->l[row] += tile_weigh(t, r, from, to, t->m[row]);
}

static void tile_block(const tile *t, int64_t j0, int64_t n) {
    const att_cpu_job *job = t->job;
    att_cpu_kv_rows(job, &t->task.s, job->a->k, &job->p->k, j0, n, t->rows_k);
    att_cpu_kv_rows(job, &t->task.s, job->a->v, &job->p->v, j0, n, t->rows_v);
    tile_pack_kv(t, n);
    for (int64_t r0 = 0; r0 < t->task.rows; r0 += TILE_STRIP) {
        const int64_t r1 = att_min(r0 + TILE_STRIP, t->task.rows);
        const att_cpu_interval keys = seen_by(t, r0, r1);
        const int64_t lo = att_max(keys.lo - j0, 0), hi = att_min(keys.hi - j0, n);
        if (hi <= lo)
            continue;
        const int64_t from = lo / TILE_STEP * TILE_STEP, to = att_round_up(hi, TILE_STEP);
        tile_scores(t, r0, from, to);
        for (int64_t r = 0; r0 + r < r1; r++)
            tile_softmax_row(t, r0, r, j0, n, from, to);
        tile_accumulate(t, r0, from, hi);
    }
}

static void tile_run(const att_cpu_job *job, int64_t index, void *scratch) {
    tile t = {.job = job, .task = att_cpu_task_of(job, index)};
    t.shaped = logits_are_shaped(job->p);
    t.factor = logit_factor(job->p);
    if (t.task.rows <= 0)
        return;
    tile_map(&t, job->p, t.task.rows, scratch);
    const att_cpu_interval keys = tile_begin(&t);
    if (keys.hi > keys.lo)
        tile_pack_q(&t);
    for (int64_t j0 = keys.lo; j0 < keys.hi; j0 += TILE_KEYS)
        tile_block(&t, j0, att_min(TILE_KEYS, keys.hi - j0));
    for (int64_t r = 0; r < t.task.rows; r++) {
        if (job->t->splits > 1)
            keep_partial(job, t.task.partial + r, t.o + r * t.o_stride, t.m[r], t.l[r]);
        else
            finish_row(job, &t.task.s, t.task.row0 + r, t.o + r * t.o_stride, t.m[r], t.l[r]);
    }
}

#endif
