/* job.h: one run of a CPU kernel: its inputs, how it is cut into tasks, and the geometry of a
 * task.
 *
 * Query heads that share a K/V head are packed: row r of (batch b, K/V head hk) is query
 * position r / group of query head hk * group + r % group, so that every K/V block loaded
 * serves the whole group. The keys a row sees are always one interval [lo, hi). */
#ifndef ATT_CPU_JOB_H
#define ATT_CPU_JOB_H

#include <stdint.h>

#include "attention/problem.h"
#include "attest.h"
#include "base/checked.h"
#include "base/dtype.h"

/* How a problem is cut; frozen in the plan. */
typedef struct att_cpu_tiling {
    int64_t group;      /* query heads per K/V head */
    int64_t rows;       /* packed rows per task */
    int64_t row_blocks; /* tasks along the rows of one (batch, K/V head) */
    int64_t splits;     /* parts the keys are cut into */
    int64_t tasks;      /* batch * heads_kv * row_blocks * splits, at least 1 */
    int threads;
    size_t scratch;  /* bytes per thread */
    size_t partials; /* bytes for the unnormalised results of the splits; 0 without splits */
} att_cpu_tiling;

typedef struct att_cpu_job {
    const att_problem *p;
    const att_args *a;
    const att_cpu_tiling *t;
    float *partials;
} att_cpu_job;

/* One (batch entry, K/V head): where its rows are and how long it is. Keys are counted from the
 * first one in use: key 0 is key first_k in the numbering of pages and bias. */
typedef struct att_cpu_sequence {
    int64_t batch, head_kv;
    int64_t len_q, len_k;
    int64_t row_q, row_k; /* first row in packed Q/O/LSE and K/V */
    int64_t shift;        /* diagonal(i) = i + shift */
    int64_t first_k;
} att_cpu_sequence;

/* The query head and position of packed row `row` of a sequence. */
typedef struct att_cpu_query {
    int64_t head, position;
} att_cpu_query;

static inline att_cpu_query att_cpu_query_of(const att_cpu_job *job, const att_cpu_sequence *s,
                                             int64_t row) {
    const int64_t group = job->t->group;
    if (group == 1) /* the most common case, and division is slow */
        return (att_cpu_query){s->head_kv, row};
    return (att_cpu_query){s->head_kv * group + row % group, row / group};
}

typedef struct att_cpu_interval {
    int64_t lo, hi; /* empty if hi <= lo */
} att_cpu_interval;

static inline att_cpu_sequence att_cpu_sequence_of(const att_problem *p, const att_args *a,
                                                   int64_t batch, int64_t head_kv) {
    att_cpu_sequence s = {
        .batch = batch, .head_kv = head_kv, .len_q = p->seq_q, .len_k = p->seq_k};
    if (p->features & ATT_CU_SEQLENS_Q) {
        s.row_q = a->cu_seqlens_q[batch];
        s.len_q = a->cu_seqlens_q[batch + 1] - s.row_q;
    }
    if (p->features & ATT_CU_SEQLENS_K) {
        s.row_k = a->cu_seqlens_k[batch];
        s.len_k = a->cu_seqlens_k[batch + 1] - s.row_k;
    }
    if (p->features & ATT_LENS_K)
        s.len_k = att_min(s.len_k, a->lens_k[batch]);
    s.shift = att_problem_is_bottom_right(p) ? s.len_k - s.len_q : p->q_offset - p->k_offset;
    if (p->features & ATT_Q_OFFSETS)
        s.shift += a->q_offsets[batch];
    if (p->features & ATT_K_OFFSETS)
        s.shift -= a->k_offsets[batch];
    if (p->features & ATT_STARTS_K) {
        s.first_k = att_min(a->starts_k[batch], s.len_k);
        s.row_k += s.first_k;
        s.len_k -= s.first_k;
        s.shift -= s.first_k;
    }
    return s;
}

/* The keys that query position i sees. */
static inline att_cpu_interval att_cpu_visible(const att_problem *p, const att_cpu_sequence *s,
                                               int64_t i) {
    att_cpu_interval v = {0, s->len_k};
    const int64_t diagonal = i + s->shift;
    if (p->causal != ATT_CAUSAL_NONE)
        v.hi = att_min(v.hi, diagonal + 1);
    /* Compared before adding: a window may be as wide as INT64_MAX. */
    if (p->window_right >= 0 && p->window_right < v.hi - 1 - diagonal)
        v.hi = diagonal + p->window_right + 1;
    if (p->window_left >= 0 && p->window_left < diagonal)
        v.lo = diagonal - p->window_left;
    return v;
}

/* Address of element 0 of a row. `bytes` is the size of an element. */
static inline const char *att_cpu_q_row(const att_cpu_job *job, const att_cpu_sequence *s,
                                        int64_t head, int64_t i) {
    const att_strides *st = &job->p->q;
    const int64_t batch = job->p->features & ATT_CU_SEQLENS_Q ? 0 : s->batch * st->batch;
    const int64_t offset = batch + head * st->head + (s->row_q + i) * st->row;
    return (const char *)job->a->q + offset * att_dtype_bytes(job->p->dtype);
}

/* Element offset of row j of K or V, whose strides are `st`. */
static inline int64_t att_cpu_kv_offset(const att_cpu_job *job, const att_cpu_sequence *s,
                                        const att_strides *st, int64_t j) {
    const att_problem *p = job->p;
    if (p->features & ATT_PAGED) {
        const int64_t key = s->first_k + j;
        const int64_t page =
            job->a->page_table[s->batch * p->page_table_stride + key / p->page_size];
        return page * st->batch + s->head_kv * st->head + key % p->page_size * st->row;
    }
    const int64_t batch = p->features & ATT_CU_SEQLENS_K ? 0 : s->batch * st->batch;
    return batch + s->head_kv * st->head + (s->row_k + j) * st->row;
}

/* Fill rows[0..n-1] with the addresses of keys j .. j+n-1 of K (or V). Key j need not exist if
 * n is 0: the stride of a single row may be anything. */
static inline void att_cpu_kv_rows(const att_cpu_job *job, const att_cpu_sequence *s,
                                   const void *base, const att_strides *st, int64_t j,
                                   int64_t n, const char **rows) {
    if (n == 0)
        return;
    const int64_t bytes = att_dtype_bytes(job->p->dtype);
    if (job->p->features & ATT_PAGED) {
        for (int64_t k = 0; k < n; k++)
            rows[k] = (const char *)base + att_cpu_kv_offset(job, s, st, j + k) * bytes;
        return;
    }
    const char *first = (const char *)base + att_cpu_kv_offset(job, s, st, j) * bytes;
    for (int64_t k = 0; k < n; k++)
        rows[k] = first + k * st->row * bytes;
}

/* Element offsets of row i in O and in LSE. */
static inline int64_t att_cpu_o_offset(const att_problem *p, const att_cpu_sequence *s,
                                       int64_t head, int64_t i) {
    const int64_t batch = p->features & ATT_CU_SEQLENS_Q ? 0 : s->batch * p->o.batch;
    return batch + head * p->o.head + (s->row_q + i) * p->o.row;
}

static inline int64_t att_cpu_lse_offset(const att_problem *p, const att_cpu_sequence *s,
                                         int64_t head, int64_t i) {
    const int64_t batch = p->features & ATT_CU_SEQLENS_Q ? 0 : s->batch * p->lse.batch;
    return batch + head * p->lse.head + (s->row_q + i) * p->lse.row;
}

/* A partial row: the accumulator padded to whole vectors of any instruction set, then the top
 * score and the sum. */
static inline int64_t att_cpu_partial_width(const att_problem *p) {
    return att_round_up(p->d_v, 16);
}
static inline int64_t att_cpu_partial_stride(const att_problem *p) {
    return att_cpu_partial_width(p) + 16;
}

/* Element offset of (head, row i, key 0) of the bias. */
static inline int64_t att_cpu_bias_offset(const att_problem *p, const att_cpu_sequence *s,
                                          int64_t head, int64_t i) {
    return s->batch * p->bias.batch + head * p->bias.head + i * p->bias.row +
           s->first_k * p->bias.col;
}

static inline float att_cpu_slope(const att_cpu_job *job, int64_t batch, int64_t head) {
    return job->a->alibi[batch * job->p->alibi_stride_batch + head];
}

/* The part of `keys` that a split walks, in whole blocks of `block` keys. */
static inline att_cpu_interval att_cpu_split_of(const att_cpu_job *job, int64_t split,
                                                att_cpu_interval keys, int64_t block) {
    if (keys.hi <= keys.lo)
        return (att_cpu_interval){0, 0};
    const int64_t count = keys.hi - keys.lo;
    const int64_t part = att_round_up(att_ceil_div(count, job->t->splits), block);
    const int64_t first = keys.lo + att_min(split * part, count);
    return (att_cpu_interval){first, att_min(keys.hi, first + part)};
}

/* One task: packed rows [row0, row0 + rows) of a sequence against one split of the keys. */
typedef struct att_cpu_task {
    att_cpu_sequence s;
    int64_t row0, rows; /* rows <= 0: nothing to do */
    int64_t split;
    int64_t partial; /* index of the task's first row in the partials */
} att_cpu_task;

static inline att_cpu_task att_cpu_task_of(const att_cpu_job *job, int64_t index) {
    const att_cpu_tiling *t = job->t;
    const att_problem *p = job->p;
    att_cpu_task task = {.rows = 0};
    if (p->batch == 0)
        return task;
    task.split = index % t->splits;
    index /= t->splits;
    if (t->row_blocks == 0)
        return task;
    /* As many heads as there are threads are processed at a time, while their K/V are in the
     * cache. With a causal mask, later rows see more keys: the longest blocks of these heads go
     * first, so that no thread ends on one. */
    const int64_t first = index / (t->row_blocks * t->threads) * t->threads;
    const int64_t heads = att_min(t->threads, p->batch * p->heads_kv - first);
    const int64_t turn = index - first * t->row_blocks;
    const int64_t pair = first + turn % heads;
    const int64_t block = t->row_blocks - 1 - turn / heads;
    task.s = att_cpu_sequence_of(p, job->a, pair / p->heads_kv, pair % p->heads_kv);
    task.row0 = block * t->rows;
    task.rows = att_min(t->rows, task.s.len_q * t->group - task.row0);
    task.partial = ((pair * t->row_blocks + block) * t->splits + task.split) * t->rows;
    return task;
}

#endif
