/* bwd_avx512_bf16.c: the bfloat16 gradient kernel for AVX512-BF16: twice the products of an FMA
 * per instruction. */
#include "cpu/simd_wide.h"

#define ISA avx512_bf16
#define NV  4 /* vectors per panel: MR * NV sums and NV operands fill the registers */

#include "backward/cpu/gradient_bf16_body.h"
#include "backward/cpu/gradient_kernel_body.h"
