/* moe_oracle.h: a mixture of experts in float64, one token at a time: the authority for every
 * test. Ids are chosen in float32, as the header says; everything else is in float64. Trusts
 * its arguments. */
#ifndef ATT_MOE_REF_ORACLE_H
#define ATT_MOE_REF_ORACLE_H

#include "attest.h"

/* Numbers of scratch per token, in float64 here and in float32 in moe_plain.h. */
int64_t att_moe_ref_scratch(const att_moe_problem *p);

/* Token t: y[0 .. hidden), and its experts and weights; -1 and 0 if there is no expert. Thread:
 * safe. */
void att_moe_ref_token(const att_moe_problem *p, const att_moe_args *a, int64_t t,
                       double *scratch, double *y, int32_t *ids, double *weights);

#endif
