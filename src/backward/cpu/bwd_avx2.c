/* bwd_avx2.c: the gradient kernel for AVX2, FMA and F16C. */
#include "cpu/simd_avx2.h"

#define ISA avx2
#define NV  2 /* vectors per panel: MR * NV sums and NV operands fill the registers */

#include "backward/cpu/gradient_fma_body.h"
#include "backward/cpu/gradient_kernel_body.h"
