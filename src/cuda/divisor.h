/* divisor.h: prepares divisors for kernels. */
#ifndef ATT_CUDA_DIVISOR_H
#define ATT_CUDA_DIVISOR_H

#include "kernels/fwd_params.h"

/* Prepare a division by value > 0. */
att_fwd_divisor att_cuda_divisor(unsigned value);

#endif
