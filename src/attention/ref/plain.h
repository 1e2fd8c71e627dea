/* plain.h: the plain same-dtype reference, whose error sets the bar for the kernels.
 *
 * What a careful programmer in no hurry would write in float32: products summed in order, expf,
 * P rounded to the input type before P*V, the sum of P taken before that rounding, O rounded to
 * dtype_o. */
#ifndef ATT_REF_PLAIN_H
#define ATT_REF_PLAIN_H

#include <stdint.h>

#include "attest.h"

/* The order of sums. Each order rounds differently, and none is more correct than the
 * others. */
typedef enum att_plain_order {
    ATT_PLAIN_FORWARD,
    ATT_PLAIN_COLUMNS_BACK = 1 << 0, /* of Q and K, from the last */
    ATT_PLAIN_KEYS_BACK = 1 << 1,    /* or both */
    ATT_PLAIN_ORDERS = 4
} att_plain_order;

/* As att_ref_row() of oracle.h, in float32. */
void att_plain_row(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                   att_plain_order order, float *logits, float *o, float *lse);

/* As att_ref_score(), in float32. */
float att_plain_score(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                      int64_t j, att_plain_order order, float *capped);

/* x rounded to the type. */
float att_plain_rounded(float x, att_dtype dtype);

#endif
