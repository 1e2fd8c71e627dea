/* moe_ref_weights.h: the weight matrices and biases of an expert, in any layout. */
#ifndef ATT_MOE_REF_WEIGHTS_H
#define ATT_MOE_REF_WEIGHTS_H

#include <stdbool.h>

#include "attest.h"

/* Weight k of output n is element first + n * output_step + k * depth_step. */
typedef struct att_moe_ref_matrix {
    const void *base;
    att_dtype dtype;
    int64_t first, output_step, depth_step;
    int64_t outputs, depth;
    const void *bias; /* NULL: none */
    att_dtype dtype_bias;
    int64_t bias_first, bias_step;
} att_moe_ref_matrix;

/* For local expert `e`: gate, up (not without a gate), and the second product. */
att_moe_ref_matrix att_moe_ref_gate(const att_moe_problem *p, const att_moe_args *a, int64_t e);
att_moe_ref_matrix att_moe_ref_up(const att_moe_problem *p, const att_moe_args *a, int64_t e);
att_moe_ref_matrix att_moe_ref_down(const att_moe_problem *p, const att_moe_args *a, int64_t e);

bool att_moe_ref_is_gated(const att_moe_problem *p);

/* All weights of an output; and those of every output at a depth. */
void att_moe_ref_load(const att_moe_ref_matrix *m, int64_t output, float *row);
void att_moe_ref_load_depth(const att_moe_ref_matrix *m, int64_t depth, float *row);

/* The bias of output n, 0 if there is none. */
float att_moe_ref_bias(const att_moe_ref_matrix *m, int64_t n);

#endif
