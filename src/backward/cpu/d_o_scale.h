/* d_o_scale.h: a power of two that scales a tiny d_o out of the subnormal range.
 *
 * The products of AVX512-BF16 and AMX flush subnormal operands and results to zero, which loses
 * a d_o of 1e-37. Every gradient is proportional to d_o, so all of it may be multiplied by one
 * power of two, exactly, and the gradients divided by it. */
#ifndef ATT_BACKWARD_CPU_D_O_SCALE_H
#define ATT_BACKWARD_CPU_D_O_SCALE_H

#include "backward/cpu/gradient_job.h"

/* The power for a run whose blocks are prepared: 1 unless all of d_o is tiny. */
float att_d_o_scale(const att_gradient_job *job);

#endif
