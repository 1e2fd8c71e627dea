/* bias_pieces.h: d_bias in pieces of a block of rows by a chunk of keys, each summed by one
 * task over everything that shares it. */
#ifndef ATT_BACKWARD_CPU_BIAS_PIECES_H
#define ATT_BACKWARD_CPU_BIAS_PIECES_H

#include "backward/cpu/gradient_job.h"

typedef struct att_bias_piece {
    att_cpu_interval batch, heads; /* whose gradients are summed */
    att_cpu_interval rows,
        keys; /* all of them if the bias is shared along the rows or the keys */
} att_bias_piece;

/* The number of parts of `step` in a dimension; one if the bias is shared along it. */
static inline int64_t att_bias_parts(int64_t stride, int64_t size, int64_t step) {
    return stride == 0 ? att_min(size, 1) : att_ceil_div(size, step);
}

static inline int64_t att_bias_piece_count(const att_problem *p, const att_gradient_cut *c) {
    const att_strides *st = &p->grad_bias;
    return att_bias_parts(st->batch, p->batch, 1) * att_bias_parts(st->head, p->heads_q, 1) *
           att_bias_parts(st->row, p->seq_q, c->block_rows) *
           att_bias_parts(st->col, p->seq_k, c->chunk_keys);
}

/* Extract the part of one dimension from an index. */
static inline att_cpu_interval att_bias_take_part(int64_t *index, int64_t stride, int64_t size,
                                                  int64_t step) {
    const int64_t parts = att_bias_parts(stride, size, step), part = *index % parts;
    *index /= parts;
    return stride == 0 ? (att_cpu_interval){0, size}
                       : (att_cpu_interval){part * step, att_min((part + 1) * step, size)};
}

static inline att_bias_piece att_bias_piece_of(const att_problem *p, const att_gradient_cut *c,
                                               int64_t index) {
    const att_strides *st = &p->grad_bias;
    att_bias_piece piece;
    piece.keys = att_bias_take_part(&index, st->col, p->seq_k, c->chunk_keys);
    piece.rows = att_bias_take_part(&index, st->row, p->seq_q, c->block_rows);
    piece.heads = att_bias_take_part(&index, st->head, p->heads_q, 1);
    piece.batch = att_bias_take_part(&index, st->batch, p->batch, 1);
    return piece;
}

#endif
