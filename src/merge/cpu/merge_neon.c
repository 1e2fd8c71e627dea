/* merge_neon.c: the merge kernel for NEON. */
#include "cpu/simd_neon.h"

#define ISA neon

#include "merge/cpu/merge_body.h"
