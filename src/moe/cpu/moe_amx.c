/* moe_amx.c: the moe kernel for AMX, with AVX-512 for everything except products. */
#include "cpu/simd_wide.h"

#define ISA amx

#include "moe/cpu/moe_amx_body.h"
#include "moe/cpu/moe_kernel_body.h"
