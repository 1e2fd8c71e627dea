/* mixture.h: a mixture of experts with its arrays, guarded, seeded and poisoned, and its
 * answers from the oracle. */
#ifndef TESTS_SUPPORT_MIXTURE_H
#define TESTS_SUPPORT_MIXTURE_H

#include "tests/support/check.h"
#include "tests/support/guard.h"

/* Arrays of a mixture; the first four are outputs. */
enum {
    MIX_Y,
    MIX_IDS,
    MIX_WEIGHTS,
    MIX_COUNTS,
    MIX_X,
    MIX_LOGITS,
    MIX_W1,
    MIX_W2,
    MIX_W3,
    MIX_B1,
    MIX_B2,
    MIX_B3,
    MIX_CORRECTION,
    MIX_MASK,
    MIX_GIVEN_IDS,
    MIX_GIVEN_WEIGHTS,
    MIX_ARRAYS
};

typedef struct mixture {
    att_moe_problem p;
    guarded array[MIX_ARRAYS]; /* elements that no index reaches are 0xff */
    att_launch launch;
    att_moe_args args;
} mixture;

/* Inputs from `seed`; every token is unmasked, given ids are random. The problem must be one
 * that the library accepts. */
void mixture_open(mixture *m, const att_moe_problem *p, uint64_t seed);
void mixture_close(mixture *m);

/* Plan and run once, after poisoning the outputs, in a workspace of exactly the requested
 * size. */
att_status mixture_run(mixture *m, att_context *ctx);
void mixture_poison(mixture *m);

/* Ids and counts equal the oracle's, y and weights are as close to it as the types allow;
 * nothing else was written. */
void mixture_check(const mixture *m);
void mixture_check_token(const mixture *m, int64_t token);

/* One element. */
void mixture_set_x(mixture *m, int64_t token, int64_t column, float value);
void mixture_set_logit(mixture *m, int64_t token, int64_t expert, float value);
float mixture_y(const mixture *m, int64_t token, int64_t column);
const int32_t *mixture_ids(const mixture *m, int64_t token);
const float *mixture_weights(const mixture *m, int64_t token);

/* Whether two rows of y have the same bits. */
bool mixture_same_row(const mixture *a, int64_t token_a, const mixture *b, int64_t token_b);

#endif
