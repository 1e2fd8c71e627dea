/* moe_avx512_bf16.c: the bfloat16 moe kernel with the dot products of AVX512-BF16. */
#include "cpu/simd_wide.h"

#define ISA avx512_bf16
#define MR  6 /* tokens per tile: MR * NV sums and MR operands fill the registers */

#include "moe/cpu/moe_pairs_body.h"
#include "moe/cpu/moe_tasks_body.h"
#include "moe/cpu/moe_kernel_body.h"
