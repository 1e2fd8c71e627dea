/* moe_avx512.c: the moe kernel for AVX-512. */
#include "cpu/simd_wide.h"

#define ISA avx512
#define MR  6 /* tokens per tile: MR * NV sums and MR operands fill the registers */

#include "moe/cpu/moe_fma_body.h"
#include "moe/cpu/moe_tasks_body.h"
#include "moe/cpu/moe_kernel_body.h"
