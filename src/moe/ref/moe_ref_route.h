/* moe_ref_route.h: the experts of a token, one at a time: the authority on ids. Trusts its
 * arguments. */
#ifndef ATT_MOE_REF_ROUTE_H
#define ATT_MOE_REF_ROUTE_H

#include <stdbool.h>

#include "attest.h"

/* The experts of token t in order, -1 if there is none; `scores` has room for 2 * experts
 * numbers. Thread: safe. */
void att_moe_ref_ids(const att_moe_problem *p, const att_moe_args *a, int64_t t, float *scores,
                     int32_t *ids);

/* The logit of expert e. Not with ATT_MOE_GIVEN. */
float att_moe_ref_logit(const att_moe_problem *p, const att_moe_args *a, int64_t t, int64_t e);

bool att_moe_ref_is_local(const att_moe_problem *p, int32_t id);

/* Tokens of each expert, then 0: experts + 1 values. */
void att_moe_ref_counts(const att_moe_problem *p, const att_moe_args *a, float *scores,
                        int32_t *ids, double *counts);

#endif
