/* isa_neon.c: the kernels for NEON. */
#include "cpu/simd_neon.h"

#define ISA          neon
#define NV           4 /* vectors per panel: MR * NV sums and NV operands fill the registers */
#define DECODE_BATCH 4 /* keys whose dot products are in flight together */

#include "attention/cpu/fma_kernels_body.h"
