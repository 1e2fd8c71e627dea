/* moe_neon.c: the moe kernel for NEON. */
#include "cpu/simd_neon.h"

#define ISA neon
#define MR  6 /* tokens per tile: MR * NV sums and MR operands fill the registers */

#include "moe/cpu/moe_fma_body.h"
#include "moe/cpu/moe_tasks_body.h"
#include "moe/cpu/moe_kernel_body.h"
