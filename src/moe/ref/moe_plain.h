/* moe_plain.h: a plain mixture of experts in float32, one token at a time: its error sets the
 * bar. It rounds where a kernel must: h to dtype, y to dtype_y. Trusts its arguments. */
#ifndef ATT_MOE_REF_PLAIN_H
#define ATT_MOE_REF_PLAIN_H

#include "attest.h"

/* The order in which the terms of a product are added. */
typedef enum att_moe_plain_order {
    ATT_MOE_PLAIN_UPWARDS,
    ATT_MOE_PLAIN_DOWNWARDS,
    ATT_MOE_PLAIN_ORDERS
} att_moe_plain_order;

/* As att_moe_ref_token(). */
void att_moe_plain_token(const att_moe_problem *p, const att_moe_args *a, int64_t t,
                         att_moe_plain_order order, float *scratch, float *y, int32_t *ids,
                         float *weights);

#endif
