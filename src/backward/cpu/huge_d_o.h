/* huge_d_o.h: rows whose d_o is so large that subnormal numbers of V matter.
 *
 * The products of AVX512-BF16 and AMX treat subnormal operands as zero. What that loses in dot(d_o, v) is below 2^-126 * |d_o| per
 * column. For a huge d_o, which no training step has, it can be all of d_alibi and d_bias: such rows are computed in float64. */
#ifndef ATT_BACKWARD_CPU_HUGE_D_O_H
#define ATT_BACKWARD_CPU_HUGE_D_O_H

#include "backward/cpu/gradient_terms_body.h"

static const float HUGE_D_O = 0x1p64f;

/* A log-sum-exp of NaN makes every sum that the row is part of NaN, and those are computed again in float64. */
static void give_up_huge_d_o(const gradient_tile *t, int64_t r, row_terms *row) {
    const att_gradient_job *job = t->job;
    const att_block_fact *blocks = job->block_facts + att_gradient_first_block(job, &t->s);
    if (blocks[tile_row(t, r) / job->cut->block_rows].d_o_most >= HUGE_D_O)
        row->lse = vf_set1(NAN);
}

#endif
