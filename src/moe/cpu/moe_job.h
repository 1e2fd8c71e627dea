/* moe_job.h: one run of a CPU kernel of moe: what it reads, how it is cut into tasks, what lies in its
 * workspace.
 *
 * Tokens are taken in chunks. Those of a chunk are routed; their slots, a slot being a token and one
 * of its experts, are sorted by expert into positions. A task of the first step computes a block of
 * columns of h for all positions of an expert; one of the second step a block of columns of y for
 * all tokens of the chunk. Every sum has an order that depends on nothing but its own length, so
 * that how tokens, columns and threads are cut changes no bit. */
#ifndef ATT_MOE_CPU_JOB_H
#define ATT_MOE_CPU_JOB_H

#include "base/checked.h"
#include "base/dtype.h"
#include "moe/moe.h"

enum { ATT_MOE_ROUTED = 16 }; /* tokens of a task that routes */

typedef struct att_moe_cut {
    int64_t chunk;                       /* tokens */
    int64_t positions;                   /* room for those of a chunk */
    int64_t inner_block, hidden_block;   /* columns of a task */
    int64_t inner_blocks, hidden_blocks; /* how many there are */
    bool widens_x;                       /* the rows of x are copied in float32 */
    int threads;
    size_t scratch; /* bytes a thread, at the start of the workspace */
    /* Offsets of what follows. */
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
    int32_t *slot_at;          /* by position in use: token * k + j, counted in the chunk */
    int32_t *position_of;      /* by slot; -1: no expert, or none of this call's */
    int32_t *starts, *lengths; /* positions of every local expert: the first, and how many */
    int32_t *active;           /* local experts that have any, in order */
    int64_t active_count;

    float *x; /* the chunk's rows in float32, where the kernel multiplies those; else NULL */
    void *h;  /* by position, laid out as the kernel likes it */
} att_moe_job;

static inline int64_t att_moe_local_id(const att_moe_problem *p, int32_t id) {
    const int64_t e = id - p->first_expert;
    return id >= 0 && e >= 0 && e < p->local_experts ? e : -1;
}

/* Row `token` of the chunk as an operand: float32, or as the caller has it. */
static inline const void *att_moe_x_row(const att_moe_job *job, int64_t token) {
    const att_moe_problem *p = job->p;
    if (job->x)
        return job->x + token * p->hidden;
    return (const char *)job->a->x +
           (job->first_token + token) * p->x_row * att_dtype_bytes(p->dtype);
}

/* The token of a position, counted in the chunk. */
static inline int64_t att_moe_token_at(const att_moe_job *job, int64_t position) {
    return job->slot_at[position] / job->p->experts_per_token;
}

#endif
