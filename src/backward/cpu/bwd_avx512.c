/* bwd_avx512.c: the gradient kernel for AVX-512. */
#include "cpu/simd_wide.h"

#define ISA avx512
#define NV  4 /* vectors per panel: MR * NV sums and NV operands fill the registers */

#include "backward/cpu/gradient_fma_body.h"
#include "backward/cpu/gradient_kernel_body.h"
