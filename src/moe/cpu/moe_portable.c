/* moe_portable.c: the moe kernel in plain C. */
#include "cpu/simd_portable.h"

#define ISA portable
#define MR  3 /* tokens per tile: MR * NV sums and MR operands fill the registers */

#include "moe/cpu/moe_fma_body.h"
#include "moe/cpu/moe_tasks_body.h"
#include "moe/cpu/moe_kernel_body.h"
