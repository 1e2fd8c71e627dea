/* d_o_scale.h: a power of two that lifts a tiny d_o out of reach of the subnormal numbers.
 *
 * The products of AVX512-BF16 and AMX take subnormal operands and results for zero, which a d_o of 1e-37 does not survive. Every
 * gradient is proportional to d_o, so that all of it may be multiplied by one power of two, exactly, and the gradients divided by it. */
#ifndef ATT_BACKWARD_CPU_D_O_SCALE_H
#define ATT_BACKWARD_CPU_D_O_SCALE_H

#include "backward/cpu/gradient_job.h"

/* The power for a run whose blocks are prepared: 1 but where all of d_o is tiny. */
float att_d_o_scale(const att_gradient_job *job);

#endif
