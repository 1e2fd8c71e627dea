/* backward_plain.h: the plain same-dtype gradients, whose error sets the bar for the kernels.
 *
 * What a careful programmer in no hurry would write in float32: products summed in order, expf,
 * the weights rounded to the input type before they multiply d_o, the derivatives by the scores
 * before they multiply q and k, as operands of a tensor core must be; delta from o as stored.
 * No weight is above 1, and all are 0 if the lse is +inf. d_bias, d_sinks and d_alibi are sums
 * of unrounded values. Results are rounded to their type. */
#ifndef ATT_BACKWARD_PLAIN_H
#define ATT_BACKWARD_PLAIN_H

#include "attention/ref/plain.h"

/* As the functions of backward_oracle.h, in float32. With ATT_PLAIN_KEYS_BACK, rows are also
 * summed from the last. */
void att_backward_plain_query(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                              int64_t i, att_plain_order order, float *d_q);
void att_backward_plain_key(const att_problem *p, const att_args *a, int64_t b, int64_t h_kv,
                            int64_t j, att_plain_order order, float *d_k, float *d_v);
float att_backward_plain_bias(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                              int64_t i, int64_t j, att_plain_order order);
float att_backward_plain_sink(const att_problem *p, const att_args *a, int64_t h,
                              att_plain_order order);
float att_backward_plain_slope(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                               att_plain_order order);

#endif
