/* divisor.h: numbers that kernels divide by, prepared. */
#ifndef ATT_CUDA_DIVISOR_H
#define ATT_CUDA_DIVISOR_H

#include "kernels/fwd_params.h"

/* Prepare a division by value > 0. */
att_fwd_divisor att_cuda_divisor(unsigned value);

#endif
