/* merge_oracle.h: a merge in float64, one row at a time: the authority for every test; and the
 * plain float32 reference, whose error sets the bar. Both trust their arguments. */
#ifndef ATT_MERGE_REF_ORACLE_H
#define ATT_MERGE_REF_ORACLE_H

#include "attest.h"

/* Row i of head h in batch entry b: o[0 .. d) and the log-sum-exp. Thread: safe. */
void att_merge_ref_row(const att_merge_problem *p, const att_merge_args *a, int64_t b,
                       int64_t h, int64_t i, double *o, double *lse);

/* The same in float32, parts in order, o rounded to dtype_o. */
void att_merge_plain_row(const att_merge_problem *p, const att_merge_args *a, int64_t b,
                         int64_t h, int64_t i, float *o, float *lse);

#endif
