/* gradient_job.h: one run of a CPU gradient kernel: its inputs, how it is cut into tasks, and
 * its workspace.
 *
 * A (batch entry, K/V head) is a pair. Its query rows are packed as in the forward pass
 * (attention/cpu/job.h): all heads of a position are adjacent. The rows are cut into blocks,
 * the keys into chunks; a task is one chunk against every block that sees it. d_k and d_v of
 * the chunk stay with the task. d_q is summed in the workspace: the chunks of a pair take turns
 * at a block, in the order of the keys, and the last one that sees it writes d_q. The cut
 * depends only on the problem and the kernel, and so does the order of every sum. */
#ifndef ATT_BACKWARD_CPU_GRADIENT_JOB_H
#define ATT_BACKWARD_CPU_GRADIENT_JOB_H

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "attention/cpu/job.h"

typedef struct att_gradient_cut {
    att_cpu_tiling tiling; /* only the group is used */
    int64_t block_rows, chunk_keys;
    int64_t pairs, blocks, chunks; /* blocks and chunks of a pair, at most */
    int64_t head_rows;             /* rows per K/V head in the workspace, in whole blocks */
    int64_t sum_stride;            /* floats per row of the sums of d_q */
    int threads;
    size_t scratch;                          /* bytes per thread; at the start */
    size_t facts, block_facts, sums, slopes; /* offsets of the parts that follow */
    size_t workspace;
} att_gradient_cut;

/* What is known about a row before any key is processed. */
typedef struct att_row_fact {
    double lse;     /* NaN if the row's inputs are not finite, or it saw such a key */
    int64_t lo, hi; /* keys that it sees */
    float lse_fast; /* for float32 products; NaN: use float64, or lse is NaN */
    float delta;
} att_row_fact;

typedef struct att_block_fact {
    att_cpu_interval keys; /* keys that some row of the block may see */
    _Atomic int64_t turn;  /* the chunk that may add to the block's d_q */
    float d_o_most;        /* the largest d_o of rows that see a key, ignoring NaN */
} att_block_fact;

typedef struct att_gradient_job {
    att_cpu_job base;
    const att_gradient_cut *cut;
    att_row_fact *facts;
    att_block_fact *block_facts;
    float *sums;
    double *slopes; /* per row: the sum of d_s * distance, if d_alibi is requested */
    /* d_o is multiplied by this power of two, and the gradients by its inverse: see
     * d_o_scale.h. */
    float d_o_scale;
} att_gradient_job;

/* Index of a pair's first row in the facts and sums. With packed queries every sequence has
 * room for its own length. */
static inline int64_t att_gradient_first_row(const att_gradient_job *job,
                                             const att_cpu_sequence *s) {
    const att_gradient_cut *c = job->cut;
    const att_problem *p = job->base.p;
    const int64_t group = c->tiling.group;
    const int64_t before = p->features & ATT_CU_SEQLENS_Q
                               ? s->row_q * group + s->batch * c->block_rows
                               : s->batch * att_round_up(p->seq_q * group, c->block_rows);
    return s->head_kv * c->head_rows + before;
}

/* Index of its first block. */
static inline int64_t att_gradient_first_block(const att_gradient_job *job,
                                               const att_cpu_sequence *s) {
    return att_gradient_first_row(job, s) / job->cut->block_rows;
}

static inline att_cpu_sequence att_gradient_pair(const att_gradient_job *job, int64_t pair) {
    const int64_t heads = job->base.p->heads_kv;
    return att_cpu_sequence_of(job->base.p, job->base.a, pair / heads, pair % heads);
}

/* True if a row's inputs are finite: non-finite gradients are then due to float32 overflow. */
static inline bool att_row_is_sound(const att_row_fact *fact) {
    return !isnan(fact->lse);
}

#endif
