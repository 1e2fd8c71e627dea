/* gradients.h: a problem of the backward operation with its arrays, and its gradients from
 * float64 loops. */
#ifndef TESTS_SUPPORT_GRADIENTS_H
#define TESTS_SUPPORT_GRADIENTS_H

#include "tests/support/check.h"
#include "tests/support/guard.h"

enum { GRADIENTS_BATCH = 4 };

/* Lengths of a run, for the features that have them. */
typedef struct gradient_lengths {
    int32_t cu_q[GRADIENTS_BATCH + 1], cu_k[GRADIENTS_BATCH + 1];
    int32_t lens_k[GRADIENTS_BATCH], starts_k[GRADIENTS_BATCH];
    int32_t q_offsets[GRADIENTS_BATCH], k_offsets[GRADIENTS_BATCH];
} gradient_lengths;

/* Gradients in float64: dense (batch, heads, seq, d), d_bias with the strides of grad_bias. */
typedef struct gradient_answers {
    double *d_q, *d_k, *d_v, *d_bias, *d_sinks, *d_alibi;
} gradient_answers;

typedef struct gradients {
    att_problem p;
    gradient_lengths lengths;
    guarded q, k, v, o, lse, d_o, bias, alibi, sinks; /* inputs from a seed */
    guarded d_q, d_k, d_v, d_bias, d_sinks, d_alibi;  /* 0xff before a run */
    gradient_answers want;
    int64_t bias_count, slope_count; /* of the answers */
    att_launch launch;
    att_args args;
} gradients;

/* Inputs from `seed`, o and lse computed from them; elements that belong to no row or key are
 * NaN. Q and K are multiplied by `loud`. */
void gradients_open(gradients *g, const att_problem *p, const gradient_lengths *lengths,
                    uint64_t seed, float loud);
void gradients_close(gradients *g);

/* Recompute o, lse and the gradients, after inputs were changed. */
void gradients_answer(gradients *g);

/* Fill the outputs with 0xff. */
void gradients_poison(gradients *g);

/* Plan and run once, after poisoning the outputs. */
att_status gradients_run(gradients *g, att_context *ctx);

/* Whether query row i of a head sees key j (counted from the sequence's first). */
bool gradients_seen(const gradients *g, int64_t b, int64_t h, int64_t i, int64_t j);

/* Rows and keys of batch entry b. */
int64_t gradients_rows(const gradients *g, int64_t b);
int64_t gradients_keys(const gradients *g, int64_t b);

/* Element offset of row i of batch entry b, in an array of one row per query or per key. */
int64_t gradients_at_q(const gradients *g, const att_strides *st, int64_t b, int64_t h,
                       int64_t i);
int64_t gradients_at_k(const gradients *g, const att_strides *st, int64_t b, int64_t h,
                       int64_t j);

/* Every gradient is within `unit` times the largest of its array of the float64 one, and
 * nothing else was written. */
void gradients_check(const gradients *g, double unit);

/* The `unit` that the types of a problem allow. */
double gradients_unit(const att_problem *p);

#endif
