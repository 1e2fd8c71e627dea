/* tile.h: the state of one task of a blocked kernel, shared by its walker and its products. */
#ifndef ATT_CPU_TILE_H
#define ATT_CPU_TILE_H

#include <stdbool.h>

#include "cpu/job.h"

/* What the products of an instruction set provide to the walker (tile_body.h):
 *   TILE_STRIP   rows whose scores are live at a time       TILE_ROWS  most rows a task
 *   TILE_KEYS    keys a block                               TILE_STEP  granule of the keys looked at
 *   tile_{q,k,v,p}_bytes, tile_o_stride                     sizes of the packed operands
 *   tile_pack_q, tile_pack_kv                               from the caller's layout to the packed one
 *   tile_scores, tile_accumulate                            S = Q K^T and O += P V of one strip
 *   tile_weigh                                              scores of a row to weights, and their sum */
typedef struct tile {
    const att_cpu_job *job;
    att_cpu_task task;
    int64_t padded_rows; /* task.rows rounded up to whole strips */
    int64_t o_stride;
    bool shaped;         /* logits are more than a factor times the scores */
    float factor;        /* from what the products leave in s to log2-domain logits */
    char *q, *k, *v;     /* packed operands */
    char *p;             /* weights of a strip, where they do not replace the scores */
    float *s;            /* scores of a strip, [TILE_STRIP][TILE_KEYS] */
    float *o;            /* accumulator, [padded_rows][o_stride] */
    float *m, *l;        /* running maximum and sum of a row */
    att_cpu_interval *seen; /* keys of a row */
    const char **rows_k, **rows_v;
} tile;

/* Address of packed row r of the task. */
static inline const char *tile_q_row(const tile *t, int64_t r) {
    const int64_t group = t->job->t->group, row = t->task.row0 + r;
    return att_cpu_q_row(t->job, &t->task.s, t->task.s.head_kv * group + row % group, row / group);
}

#endif
