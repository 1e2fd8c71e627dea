/* wgmma_trans.cuh: products of a warpgroup with both operands in shared memory and MN-major:
 * the 16 summed over are rows of both tiles (sm_90a); see wgmma.cuh and wgmma_both.cuh.
 *
 * wgmma_trans_N: D += A^T B, where A is 64 columns of a tile and B is N columns of another
 * one. */
#ifndef ATT_WGMMA_TRANS_CUH
#define ATT_WGMMA_TRANS_CUH

#include "kernels/wgmma.cuh"

/* The macro's arguments are the numbers of the operands after D. */
#define WGMMA_TRANS_OF(N, i0, i1)                                                              \
    DEVICE void wgmma_trans_##N(float *d, unsigned long long a, unsigned long long b) {        \
        asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, 1, 0;\n"                          \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." WGMMA_TYPES             \
                     " {" WGMMA_NUMBERS_##N "}, %" #i0 ", %" #i1 ", more, 1, 1, 1, 1;\n}"      \
                     : WGMMA_RESULTS_##N                                                       \
                     : "l"(a), "l"(b));                                                        \
    }

WGMMA_TRANS_OF(64, 32, 33)
WGMMA_TRANS_OF(128, 64, 65)
WGMMA_TRANS_OF(192, 96, 97)

#endif
