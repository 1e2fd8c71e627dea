/* bwd_amx.c: the bfloat16 gradient kernel for AMX, with AVX-512 for everything except
 * products. */
#include "cpu/simd_wide.h"

#define ISA amx

#include "backward/cpu/gradient_amx_body.h"
#include "backward/cpu/gradient_kernel_body.h"
