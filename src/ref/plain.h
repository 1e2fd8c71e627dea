/* plain.h: the plain same-dtype reference whose error sets the bar for the kernels.
 *
 * What a careful but unhurried programmer would write in float32: products summed in order,
 * expf, P rounded to the input type before P*V, the sum of P taken before that rounding, O
 * rounded to dtype_o. */
#ifndef ATT_REF_PLAIN_H
#define ATT_REF_PLAIN_H

#include <stdint.h>

#include "attest.h"

/* As att_ref_row() of oracle.h, in float32. */
void att_plain_row(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                   float *logits, float *o, float *lse);

#endif
