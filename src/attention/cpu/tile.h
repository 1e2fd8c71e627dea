/* tile.h: the state of one task of a blocked kernel, shared by its walker and its products. */
#ifndef ATT_CPU_TILE_H
#define ATT_CPU_TILE_H

#include <stdbool.h>

#include "attention/cpu/job.h"

/* What the products of an instruction set provide to the walker (tile_body.h):
 *   TILE_STRIP   rows per strip                    TILE_ROWS  maximum rows per task
 *   TILE_KEYS    keys per block                    TILE_STEP  granule of keys
 *   TILE_PACK    keys that are packed at a time
 *   tile_{q,k,v,p}_bytes, tile_o_stride            sizes of the packed operands
 *   tile_sums_bytes                                size of the sums of a strip, if tile_fold
 *                                                  adds them
 *   pack_q_as, pack_k_as, pack_v_as                from the caller's layout to the packed one
 *   product, product_steps                         a matrix product, and steps of it
 *   tile_scores, tile_sums                         the products S = Q K^T and P V of a strip
 *   tile_fold                                      O += P V of a row, if tile_sums has not
 *                                                  done it
 *   tile_weigh                                     scores of a row to weights under a maximum
 *                                                  that is raised if needed, interleaved with
 *                                                  steps of a product */
typedef struct strip_keys {
    att_cpu_interval any, all; /* seen by some, by every row of a strip; empty if hi <= lo */
    bool begun;                /* its rows of o have been written */
} strip_keys;

/* Keys j0 .. j0+n-1. */
typedef struct key_block {
    int64_t j0, n;
    int64_t fetched; /* how many of them have been prefetched */
    const char **rows_k, **rows_v;
} key_block;

typedef struct tile {
    const att_cpu_job *job;
    att_cpu_task task;
    att_cpu_interval keys; /* of the task's split */
    int64_t padded_rows;   /* task.rows rounded up to whole strips */
    int64_t o_stride;
    bool shaped;           /* logits are more than a factor times the scores */
    float factor;          /* from products in s to log2-domain logits */
    char *q, *k, *v;       /* packed operands; k and v of the block `now` */
    key_block *now, *next; /* the current keys, and the next ones */
    key_block blocks[2];
    char *p[2];  /* weights of a strip, if they do not replace the scores */
    float *s[2]; /* scores of a strip, [TILE_STRIP][TILE_KEYS] */
    float *sums; /* P V of a strip, [TILE_STRIP][o_stride], if not added directly to o */
    float *o;    /* accumulator, [padded_rows][o_stride] */
    att_cpu_interval *seen; /* keys of a row */
    strip_keys *strips;     /* keys of a strip */
} tile;

/* Some rows of the task against the keys of the block that they see: [from, to), whole steps.
 * In the last step only the keys below `end` are in the block. `slot` selects which of the two
 * buffers holds its scores and weights. */
typedef struct strip {
    int64_t row0, rows;
    int64_t from, to, end;
    bool masked; /* some row does not see all of [from, to) */
    bool first;  /* it saw no earlier block: o is set, not added to */
    bool last;   /* it sees no later block */
    int slot;
} strip;

/* Address of packed row r of the task. */
static inline const char *tile_q_row(const tile *t, int64_t r) {
    const att_cpu_query q = att_cpu_query_of(t->job, &t->task.s, t->task.row0 + r);
    return att_cpu_q_row(t->job, &t->task.s, q.head, q.position);
}

#endif
