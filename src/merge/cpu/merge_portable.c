/* merge_portable.c: the merge kernel in plain C. */
#include "cpu/simd_portable.h"

#define ISA portable

#include "merge/cpu/merge_body.h"
