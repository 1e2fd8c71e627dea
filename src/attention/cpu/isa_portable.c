/* isa_portable.c: the kernels for plain C. */
#include "cpu/simd_portable.h"

#define ISA          portable
#define NV           2 /* vectors per panel: MR * NV sums and NV operands fill the registers */
#define DECODE_BATCH 2 /* keys whose dot products are in flight together */

#include "attention/cpu/fma_kernels_body.h"
