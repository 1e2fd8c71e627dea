/* bwd_amx.c: the kernel of gradients of bfloat16 for AMX, with AVX-512 for all that is not a product. */
#include "cpu/simd_wide.h"

#define ISA amx

#include "backward/cpu/gradient_amx_body.h"
#include "backward/cpu/gradient_kernel_body.h"
