/* bwd_portable.c: the gradient kernel in plain C. */
#include "cpu/simd_portable.h"

#define ISA portable
#define NV  2 /* vectors per panel: MR * NV sums and NV operands fill the registers */

#include "backward/cpu/gradient_fma_body.h"
#include "backward/cpu/gradient_kernel_body.h"
