/* moe_case.h: a mixture of experts drawn from a fuzzer's bytes, its arrays, and what a run must
 * leave in them. As merge_case.h. */
#ifndef FUZZ_MOE_CASE_H
#define FUZZ_MOE_CASE_H

#include "attest.h"
#include "tests/fuzz/array_slot.h"
#include "tests/fuzz/random_input.h"

/* The arrays of a run; the outputs first. */
enum {
    MOE_Y,
    MOE_IDS,
    MOE_WEIGHTS,
    MOE_COUNTS,
    MOE_X,
    MOE_LOGITS,
    MOE_W1,
    MOE_W2,
    MOE_W3,
    MOE_B1,
    MOE_B2,
    MOE_B3,
    MOE_CORRECTION,
    MOE_MASK,
    MOE_GIVEN_IDS,
    MOE_GIVEN_WEIGHTS,
    MOE_SLOTS
};

enum { MOE_FILL = 0x7b };

typedef struct moe_case {
    att_moe_problem problem;
    att_moe_args args;
    void *workspace; /* on the heap, whose ends the sanitizer checks */
    array_slot slot[MOE_SLOTS];
} moe_case;

/* A valid problem that asks for its ids; and one with a few arbitrary fields. */
void moe_draw(att_moe_problem *p, random_input *in);
void moe_break(att_moe_problem *p, random_input *in);

/* False if the arrays would be too large. */
bool moe_open(moe_case *c, random_input *in, size_t workspace_bytes);
void moe_close(moe_case *c);

/* Make one argument or id wrong; false if there was nothing to spoil. The call must then be
 * refused. */
bool moe_spoil(moe_case *c, random_input *in);

void moe_check_untouched(const moe_case *c);
void moe_check(const moe_case *c, const char *name);

#endif
