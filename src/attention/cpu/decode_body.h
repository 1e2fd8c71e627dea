/* decode_body.h: a few query rows against a long K/V, over the vf of the including file.
 *
 * With at most DECODE_ROWS packed rows the work is reading K and V once; nothing is packed or
 * transposed. The rows of a group share every load. The next block is prefetched while this one
 * is computed, since its rows are scattered in memory and the hardware prefetcher does not
 * follow them. */
#ifndef ATT_CPU_DECODE_BODY_H
#define ATT_CPU_DECODE_BODY_H

#include <string.h>

#include "attention/cpu/finish_body.h"
#include "attention/cpu/hidden_ends.h"
#include "attention/cpu/kernel.h"

/* The including file sets DECODE_BATCH, keys whose dot products are in flight together. */
enum { DECODE_ROWS = 8, DECODE_KEYS = 64, DECODE_PAIRS = 4, DECODE_COLUMNS = 4 };

typedef struct decode {
    const att_cpu_job *job;
    att_cpu_task task;
    bool shaped;
    float factor;
    int64_t q_stride, o_stride;
    float *q; /* [DECODE_ROWS][q_stride], zeros past d_qk and past the rows */
    float *s; /* [DECODE_ROWS][DECODE_KEYS] */
    float *o; /* [DECODE_ROWS][o_stride] */
    row_state state[DECODE_ROWS];
    att_cpu_interval seen[DECODE_ROWS];
    const char *rows_k[2][DECODE_KEYS],
        *rows_v[2][DECODE_KEYS]; /* of this block and of the next */
    int64_t next;                /* keys in the next block */
} decode;

static size_t decode_scratch(const att_problem *p, int64_t rows) {
    (void)rows;
    const int64_t floats = att_round_up(p->d_qk, 16) + DECODE_KEYS + att_round_up(p->d_v, 16);
    return (size_t)(DECODE_ROWS * floats) * sizeof(float);
}

static inline void prefetch_row(const char *row, int64_t bytes) {
    for (int64_t x = 0; x < bytes; x += 64)
        __builtin_prefetch(
            row + x, 0,
            2); /* into L2: keeps L1's few fill buffers free for the current reads */
}

/* s[r][j..j+keys) = q[r] . k[j..] for `rows` rows from r0; both counts are constants once
 * inlined. */
VF_INLINE void decode_dots(const decode *c, int cur, int64_t r0, const int rows, int64_t j,
                           const int keys, const att_dtype dtype) {
    const int64_t d = c->job->p->d_qk, bytes = att_dtype_bytes(dtype);
    const float *q = c->q + r0 * c->q_stride;
    vf sum[DECODE_PAIRS][DECODE_BATCH];
    for (int r = 0; r < DECODE_PAIRS; r++)
        for (int k = 0; k < keys; k++)
            sum[r][k] = vf_set1(0.0f);
    int64_t x = 0;
    for (; x + VF_W <= d; x += VF_W) {
        for (int k = 0; k < keys; k++) {
            const vf key = vf_load_as(c->rows_k[cur][j + k] + x * bytes, dtype, VF_W);
            for (int r = 0; r < rows; r++)
                sum[r][k] = vf_muladd(vf_load(q + r * c->q_stride + x), key, sum[r][k]);
        }
    }
    if (x < d) {
        for (int k = 0; k < keys; k++) {
            const vf key = vf_load_as(c->rows_k[cur][j + k] + x * bytes, dtype, d - x);
            for (int r = 0; r < rows; r++)
                sum[r][k] = vf_muladd(vf_load(q + r * c->q_stride + x), key, sum[r][k]);
        }
    }
    for (int k = 0; k < keys; k++) {
        if (rows == 1) {
            c->s[r0 * DECODE_KEYS + j + k] = vf_reduce_add(sum[0][k]);
        } else {
            const vf four[4] = {sum[0][k], sum[1][k], sum[2][k], sum[3][k]};
            float out[4];
            vf_reduce_add4(four, out);
            for (int r = 0; r < rows; r++)
                c->s[(r0 + r) * DECODE_KEYS + j + k] = out[r];
        }
    }
}

VF_INLINE void decode_scores_rows(const decode *c, int cur, int64_t r0, const int rows,
                                  int64_t from, int64_t to, const att_dtype dtype) {
    const int64_t bytes = c->job->p->d_qk * att_dtype_bytes(dtype);
    int64_t j = from;
    for (; j + DECODE_BATCH <= to; j += DECODE_BATCH) {
        if (r0 == 0)
            for (int64_t k = j; k < j + DECODE_BATCH && k < c->next; k++)
                prefetch_row(c->rows_k[!cur][k], bytes);
        decode_dots(c, cur, r0, rows, j, DECODE_BATCH, dtype);
    }
    for (; j < to; j++)
        decode_dots(c, cur, r0, rows, j, 1, dtype);
}

/* o[r][x..x+nv vectors) += p[r][from..to) * v; the counts are constants once inlined; n is the
 * number of columns left. */
VF_INLINE void decode_columns(const decode *c, int cur, int64_t r0, const int rows,
                              int64_t from, int64_t to, int64_t x, const int nv, int64_t n,
                              const att_dtype dtype) {
    const int64_t bytes = att_dtype_bytes(dtype);
    float *o = c->o + r0 * c->o_stride + x;
    vf sum[DECODE_PAIRS][DECODE_COLUMNS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = vf_load(o + r * c->o_stride + v * VF_W);
    for (int64_t j = from; j < to; j++) {
        const char *row = c->rows_v[cur][j] + x * bytes;
        if (r0 == 0 && j < c->next)
            prefetch_row(c->rows_v[!cur][j] + x * bytes, nv * VF_W * bytes);
        vf value[DECODE_COLUMNS];
        for (int v = 0; v < nv; v++)
            value[v] = vf_load_as(row + v * VF_W * bytes, dtype, nv > 1 ? VF_W : n);
        for (int r = 0; r < rows; r++) {
            const vf weight = vf_set1(c->s[(r0 + r) * DECODE_KEYS + j]);
            for (int v = 0; v < nv; v++)
                sum[r][v] = vf_muladd(weight, value[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < nv; v++)
            vf_store(o + r * c->o_stride + v * VF_W, sum[r][v]);
}

VF_INLINE void decode_accumulate_rows(const decode *c, int cur, int64_t r0, const int rows,
                                      int64_t from, int64_t to, const att_dtype dtype) {
    const int64_t d = c->job->p->d_v;
    int64_t x = 0;
    for (; x + DECODE_COLUMNS * VF_W <= d; x += DECODE_COLUMNS * VF_W)
        decode_columns(c, cur, r0, rows, from, to, x, DECODE_COLUMNS, 0, dtype);
    for (; x < d; x += VF_W)
        decode_columns(c, cur, r0, rows, from, to, x, 1, d - x, dtype);
}

#define DECODE_BY_ROWS(step, c, cur, rows, ...)                                                \
    for (int64_t r0 = 0; r0 < (rows); r0 += DECODE_PAIRS) {                                    \
        switch (att_min((rows)-r0, DECODE_PAIRS)) {                                            \
        case 1:                                                                                \
            step(c, cur, r0, 1, __VA_ARGS__);                                                  \
            break;                                                                             \
        case 2:                                                                                \
            step(c, cur, r0, 2, __VA_ARGS__);                                                  \
            break;                                                                             \
        case 3:                                                                                \
            step(c, cur, r0, 3, __VA_ARGS__);                                                  \
            break;                                                                             \
        default:                                                                               \
            step(c, cur, r0, 4, __VA_ARGS__);                                                  \
        }                                                                                      \
    }

/* One function per dtype and step, so that the loads inside are straight-line code. */
#define DECODE_STEPS(name, dtype)                                                              \
    static void decode_scores_##name(const decode *c, int cur, int64_t from, int64_t to) {     \
        DECODE_BY_ROWS(decode_scores_rows, c, cur, c->task.rows, from, to, dtype)              \
    }                                                                                          \
    static void decode_accumulate_##name(const decode *c, int cur, int64_t from, int64_t to) { \
        DECODE_BY_ROWS(decode_accumulate_rows, c, cur, c->task.rows, from, to, dtype)          \
    }
DECODE_STEPS(f32, ATT_F32)
DECODE_STEPS(f16, ATT_F16)
DECODE_STEPS(bf16, ATT_BF16)

/* Turn the scores of row r into weights, in place; [from, to) are the keys of the block. */
static void decode_softmax_row(decode *c, int64_t r, int64_t j0, int64_t from, int64_t to) {
    const int64_t first = from / (2 * VF_W) * (2 * VF_W), last = att_round_up(to, 2 * VF_W);
    const int64_t lo = att_max(c->seen[r].lo - j0, from), hi = att_min(c->seen[r].hi - j0, to);
    float *s = c->s + r * DECODE_KEYS;
    if (c->shaped && hi > lo) {
        const att_cpu_query q = att_cpu_query_of(c->job, &c->task.s, c->task.row0 + r);
        shape_row(c->job, &c->task.s, q.head, q.position, s, j0, lo, hi);
    }
    if (lo > first || hi < last)
        mask_row(s, first, last, lo, hi);
    keep_max(&c->state[r], s, first, last, c->factor, c->o + r * c->o_stride, c->o_stride);
    weigh_row(&c->state[r], s, first, last, c->factor, 5, store_in_place, s);
}

static void decode_rows_of(decode *c, int which, int64_t j0, int64_t n) {
    att_cpu_kv_rows(c->job, &c->task.s, c->job->a->k, &c->job->p->k, j0, n, c->rows_k[which]);
    att_cpu_kv_rows(c->job, &c->task.s, c->job->a->v, &c->job->p->v, j0, n, c->rows_v[which]);
}

static void decode_walk(decode *c, att_cpu_interval keys) {
    const att_dtype dtype = c->job->p->dtype;
    int cur = 0;
    decode_rows_of(c, cur, keys.lo, att_min(DECODE_KEYS, keys.hi - keys.lo));
    for (int64_t j0 = keys.lo; j0 < keys.hi; j0 += DECODE_KEYS, cur = !cur) {
        const int64_t n = att_min(DECODE_KEYS, keys.hi - j0);
        c->next = att_max(0, att_min(DECODE_KEYS, keys.hi - j0 - n));
        decode_rows_of(c, !cur, j0 + n, c->next);
        if (dtype == ATT_F32)
            decode_scores_f32(c, cur, 0, n);
        else if (dtype == ATT_F16)
            decode_scores_f16(c, cur, 0, n);
        else
            decode_scores_bf16(c, cur, 0, n);
        for (int64_t r = 0; r < c->task.rows; r++)
            decode_softmax_row(c, r, j0, 0, n);
        if (dtype == ATT_F32)
            decode_accumulate_f32(c, cur, 0, n);
        else if (dtype == ATT_F16)
            decode_accumulate_f16(c, cur, 0, n);
        else
            decode_accumulate_bf16(c, cur, 0, n);
    }
}

/* Lay out the buffers, widen Q, and return the keys that this split walks. */
static att_cpu_interval decode_begin(decode *c, float *scratch) {
    const att_problem *p = c->job->p;
    const int64_t bytes = att_dtype_bytes(p->dtype);
    c->q_stride = att_round_up(p->d_qk, 16);
    c->o_stride = att_round_up(p->d_v, 16);
    c->q = scratch;
    c->s = c->q + DECODE_ROWS * c->q_stride;
    c->o = c->s + DECODE_ROWS * DECODE_KEYS;
    memset(c->q, 0, sizeof(float) * (size_t)(DECODE_ROWS * c->q_stride));
    memset(c->o, 0, sizeof(float) * (size_t)(DECODE_ROWS * c->o_stride));
    att_cpu_interval keys = {INT64_MAX, 0};
    for (int64_t r = 0; r < c->task.rows; r++) {
        const att_cpu_query q = att_cpu_query_of(c->job, &c->task.s, c->task.row0 + r);
        const char *row = att_cpu_q_row(c->job, &c->task.s, q.head, q.position);
        for (int64_t x = 0; x < p->d_qk; x += VF_W)
            vf_store(c->q + r * c->q_stride + x,
                     vf_load_as(row + x * bytes, p->dtype, p->d_qk - x));
        row_start(&c->state[r]);
        c->seen[r] = att_cpu_without_hidden_ends(c->job, &c->task.s, q,
                                                 att_cpu_visible(p, &c->task.s, q.position));
        if (c->seen[r].hi > c->seen[r].lo) {
            keys.lo = att_min(keys.lo, c->seen[r].lo);
            keys.hi = att_max(keys.hi, c->seen[r].hi);
        }
    }
    return att_cpu_split_of(c->job, c->task.split, keys, DECODE_KEYS);
}

static void decode_run(const att_cpu_job *job, int64_t index, void *scratch) {
    decode c = {.job = job, .task = att_cpu_task_of(job, index)};
    if (c.task.rows <= 0)
        return;
    c.shaped = logits_are_shaped(job->p);
    c.factor = logit_factor(job->p);
    decode_walk(&c, decode_begin(&c, scratch));
    for (int64_t r = 0; r < c.task.rows; r++)
        end_row(job, &c.task, r, c.o + r * c.o_stride, c.state[r].top, row_sum(&c.state[r]));
}

#endif
