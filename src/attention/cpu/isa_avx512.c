/* isa_avx512.c: the kernels for AVX-512. */
#include "cpu/simd_wide.h"

#define ISA          avx512
#define NV           4 /* vectors per panel: MR * NV sums and NV operands fill the registers */
#define DECODE_BATCH 4 /* keys whose dot products are in flight together */

#include "attention/cpu/fma_kernels_body.h"
