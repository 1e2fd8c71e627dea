/* oracle.h: attention in float64, one row at a time: the authority for every test.
 *
 * Slow and obvious on purpose: no online softmax, nothing shared with the engine. Keys are
 * multiplied a few at a time, each sum in the order of its columns. tests/unit/test_oracle.c
 * implements the formula again, one element after the other, and requires the same bits. The
 * arguments are trusted: att_problem and att_args must be such that att_plan_run() accepts
 * them. */
#ifndef ATT_REF_ORACLE_H
#define ATT_REF_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "attest.h"

/* Rows and keys of batch entry b, and the first key in use; if that is past the last key, no
 * key is in use. */
int64_t att_ref_len_q(const att_problem *p, const att_args *a, int64_t b);
int64_t att_ref_len_k(const att_problem *p, const att_args *a, int64_t b);
int64_t att_ref_start_k(const att_problem *p, const att_args *a, int64_t b);

/* One batch entry: its lengths, the first key in use, and by how many positions its first row
 * is past its first key in the sequence that both are shards of. */
typedef struct att_ref_sequence {
    int64_t len_q, len_k, start_k, offset;
} att_ref_sequence;

att_ref_sequence att_ref_sequence_of(const att_problem *p, const att_args *a, int64_t b);

/* The key on row i's diagonal, which may be out of range. */
int64_t att_ref_diagonal(const att_problem *p, const att_ref_sequence *s, int64_t i);

/* The keys that row i may see by causal mask, window, length and start: [*lo, *hi), empty if
 * *lo >= *hi. */
void att_ref_visible(const att_problem *p, const att_ref_sequence *s, int64_t i, int64_t *lo,
                     int64_t *hi);

/* Whether the bias hides key j from row i (a boolean 0 or -inf), and its value otherwise. */
bool att_ref_bias_hides(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                        int64_t i, int64_t j);
float att_ref_bias(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                   int64_t j);

/* The score of key j, not hidden from row i; *capped: the same before ALiBi and bias. */
double att_ref_score(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                     int64_t j, double *capped);

/* Element index, from the base pointer, of row i of Q, O, LSE and key j of K, V; col 0. */
int64_t att_ref_index_q(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                        int64_t i);
int64_t att_ref_index_o(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                        int64_t i);
int64_t att_ref_index_lse(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                          int64_t i);
int64_t att_ref_index_k(const att_problem *p, const att_args *a, int64_t b, int64_t h_kv,
                        int64_t j);
int64_t att_ref_index_v(const att_problem *p, const att_args *a, int64_t b, int64_t h_kv,
                        int64_t j);

/* Output row i of query head h in batch entry b: o[0 .. d_v) and the log-sum-exp. Reads inputs
 * only. logits: caller's scratch for att_ref_len_k() numbers. Thread: safe. */
void att_ref_row(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                 double *logits, double *o, double *lse);

#endif
