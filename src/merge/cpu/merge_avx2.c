/* merge_avx2.c: the merge kernel for AVX2, FMA and F16C. */
#include "cpu/simd_avx2.h"

#define ISA avx2

#include "merge/cpu/merge_body.h"
