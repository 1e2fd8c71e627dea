/* isa_avx2.c: the kernels for AVX2, FMA and F16C. */
#include "cpu/simd_avx2.h"

#define ISA          avx2
#define NV           2 /* vectors per panel: MR * NV sums and NV operands fill the registers */
#define DECODE_BATCH 2 /* keys whose dot products are in flight together */

#include "attention/cpu/fma_kernels_body.h"
