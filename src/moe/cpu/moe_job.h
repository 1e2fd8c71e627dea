/* moe_job.h: one run of a CPU kernel of moe: its inputs, how it is cut into tasks, and its
 * workspace.
 *
 * Tokens are processed in chunks. The tokens of a chunk are routed; their slots, a slot being a
 * token and one of its experts, are sorted by expert into positions. A task of the first step
 * computes a block of columns of h for all positions of an expert; a task of the second step
 * computes a block of columns of y for all tokens of the chunk. The order of every sum depends
 * only on its own length, so that the division into chunks, columns and threads does not change
 * a bit. */
#ifndef ATT_MOE_CPU_JOB_H
#define ATT_MOE_CPU_JOB_H

#include "base/checked.h"
#include "base/dtype.h"
#include "moe/moe.h"

enum { ATT_MOE_ROUTED = 16 }; /* tokens per routing task */

typedef struct att_moe_cut {
    int64_t chunk;                       /* tokens */
    int64_t positions;                   /* room for those of a chunk */
    int64_t inner_block, hidden_block;   /* columns per task */
    int64_t inner_blocks, hidden_blocks; /* how many there are */
    bool widens_x;                       /* the rows of x are copied as float32 */
    int threads;
    size_t scratch; /* bytes per thread, at the start of the workspace */
    /* Offsets of the parts that follow. */
    size_t ids, weights, slot_at, position_of, starts, lengths, active, x, h;
    size_t workspace;
} att_moe_cut;

typedef struct att_moe_job {
    const att_moe_problem *p;
    const att_moe_args *a;
    const att_moe_cut *cut;
    int64_t first_token, tokens; /* of the chunk */

    int32_t *ids;              /* of the chunk's slots; -1: none */
    float *weights;            /* likewise */
    int32_t *slot_at;          /* per position in use: token * k + j, relative to the chunk */
    int32_t *position_of;      /* per slot; -1: no expert, or not a local one */
    int32_t *starts, *lengths; /* positions of every local expert: the first, and how many */
    int32_t *active;           /* local experts that have any, in order */
    int64_t active_count;

    float *x; /* the chunk's rows in float32, if the kernel needs them, or NULL */
    void *h;  /* per position, in the kernel's layout */
} att_moe_job;

static inline int64_t att_moe_local_id(const att_moe_problem *p, int32_t id) {
    const int64_t e = id - p->first_expert;
    return id >= 0 && e >= 0 && e < p->local_experts ? e : -1;
}

/* Row `token` of the chunk as an operand: float32, or the caller's. */
static inline const void *att_moe_x_row(const att_moe_job *job, int64_t token) {
    const att_moe_problem *p = job->p;
    if (job->x)
        return job->x + token * p->hidden;
    return (const char *)job->a->x +
           (job->first_token + token) * p->x_row * att_dtype_bytes(p->dtype);
}

/* The token of a position, relative to the chunk. */
static inline int64_t att_moe_token_at(const att_moe_job *job, int64_t position) {
    return job->slot_at[position] / job->p->experts_per_token;
}

#endif
