/* merge_avx512.c: the merge kernel for AVX-512. */
#include "cpu/simd_wide.h"

#define ISA avx512

#include "merge/cpu/merge_body.h"
