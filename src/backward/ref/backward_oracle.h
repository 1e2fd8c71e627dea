/* backward_oracle.h: the gradients of attention in float64, by the formula in attest.h.
 *
 * A function of a run's inputs: o and lse are read, not recomputed, except where float32 is too
 * coarse for the lse (above 2^20, including infinity). Every result is summed over all pairs of
 * rows and keys that it depends on, each pair separately. The arguments are trusted, as in
 * attention/ref/oracle.h. A row whose lse is -inf sees nothing.
 *
 * A derivative by a score is a difference that may cancel, down to 0 if a row sees one key, and
 * a weight has the rounding of its score and of the lse as a factor. Each result comes with its
 * size: the magnitudes that float32 rounds on the way, as if nothing cancelled. */
#ifndef ATT_BACKWARD_ORACLE_H
#define ATT_BACKWARD_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "attest.h"

/* Rows of K, d_k and d_v in batch entry b: those in use, and those before or past them, whose
 * gradients are 0. */
int64_t att_backward_ref_room_k(const att_problem *p, const att_args *a, int64_t b);

/* Element index, from the base pointer, of row i of d_o and d_q, of key j of d_k and d_v, and
 * of an element of d_bias. */
int64_t att_backward_ref_index_d_o(const att_problem *p, const att_args *a, int64_t b,
                                   int64_t h, int64_t i);
int64_t att_backward_ref_index_d_q(const att_problem *p, const att_args *a, int64_t b,
                                   int64_t h, int64_t i);
int64_t att_backward_ref_index_d_k(const att_problem *p, const att_args *a, int64_t b,
                                   int64_t h_kv, int64_t j);
int64_t att_backward_ref_index_d_v(const att_problem *p, const att_args *a, int64_t b,
                                   int64_t h_kv, int64_t j);
int64_t att_backward_ref_index_d_bias(const att_problem *p, int64_t b, int64_t h, int64_t i,
                                      int64_t j);

/* Whether row i of query head h sees key j, and its lse is not -inf. */
bool att_backward_ref_sees(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                           int64_t i, int64_t j);

/* The batch entries, heads, rows or keys that an index of one dimension of the bias covers:
 * itself, or all if it is broadcast. */
typedef struct att_backward_span {
    int64_t first, end;
} att_backward_span;
att_backward_span att_backward_ref_span(int64_t stride, int64_t at, int64_t size);

/* A result and its size. */
typedef struct att_backward_value {
    double value, size;
} att_backward_value;

/* Thread: safe, all of them. */
void att_backward_ref_query(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                            int64_t i, double *d_q, double *size_q);
void att_backward_ref_key(const att_problem *p, const att_args *a, int64_t b, int64_t h_kv,
                          int64_t j, double *d_k, double *size_k, double *d_v, double *size_v);
att_backward_value att_backward_ref_bias(const att_problem *p, const att_args *a, int64_t b,
                                         int64_t h, int64_t i, int64_t j);
att_backward_value att_backward_ref_sink(const att_problem *p, const att_args *a, int64_t h);
att_backward_value att_backward_ref_slope(const att_problem *p, const att_args *a, int64_t b,
                                          int64_t h);

#endif
