/* bwd_neon.c: the gradient kernel for NEON. */
#include "cpu/simd_neon.h"

#define ISA neon
#define NV  4 /* vectors per panel: MR * NV sums and NV operands fill the registers */

#include "backward/cpu/gradient_fma_body.h"
#include "backward/cpu/gradient_kernel_body.h"
