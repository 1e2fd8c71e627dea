/* moe_avx2.c: the moe kernel for AVX2, FMA and F16C. */
#include "cpu/simd_avx2.h"

#define ISA avx2
#define MR  3 /* tokens per tile: MR * NV sums and MR operands fill the registers */

#include "moe/cpu/moe_fma_body.h"
#include "moe/cpu/moe_tasks_body.h"
#include "moe/cpu/moe_kernel_body.h"
