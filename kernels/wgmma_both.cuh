/* wgmma_both.cuh: more products of a warpgroup with both operands in shared memory (sm_90a);
 * see wgmma.cuh.
 *
 * wgmma_first_N: D = A B, both K-major; D is only written, so it need not be zeroed first.
 * wgmma_cross_first_N and wgmma_cross_N: A is K-major, B is MN-major (the 16 summed over are
 * rows of its tile); the second one adds to D. */
#ifndef ATT_WGMMA_BOTH_CUH
#define ATT_WGMMA_BOTH_CUH

#include "kernels/wgmma.cuh"

#define WGMMA_OUT_EIGHT(i)                                                                     \
    "=f"(d[i]), "=f"(d[i + 1]), "=f"(d[i + 2]), "=f"(d[i + 3]), "=f"(d[i + 4]),                \
        "=f"(d[i + 5]), "=f"(d[i + 6]), "=f"(d[i + 7])
#define WGMMA_OUT_16  WGMMA_OUT_EIGHT(0)
#define WGMMA_OUT_32  WGMMA_OUT_16, WGMMA_OUT_EIGHT(8)
#define WGMMA_OUT_48  WGMMA_OUT_32, WGMMA_OUT_EIGHT(16)
#define WGMMA_OUT_64  WGMMA_OUT_48, WGMMA_OUT_EIGHT(24)
#define WGMMA_OUT_80  WGMMA_OUT_64, WGMMA_OUT_EIGHT(32)
#define WGMMA_OUT_96  WGMMA_OUT_80, WGMMA_OUT_EIGHT(40)
#define WGMMA_OUT_112 WGMMA_OUT_96, WGMMA_OUT_EIGHT(48)
#define WGMMA_OUT_128 WGMMA_OUT_112, WGMMA_OUT_EIGHT(56)

/* The macro's arguments are the numbers of the operands after D. */
#define WGMMA_BOTH_OF(N, i0, i1)                                                               \
    DEVICE void wgmma_first_##N(float *d, unsigned long long a, unsigned long long b) {        \
        asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, 0, 0;\n"                          \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." WGMMA_TYPES             \
                     " {" WGMMA_NUMBERS_##N "}, %" #i0 ", %" #i1 ", more, 1, 1, 0, 0;\n}"      \
                     : WGMMA_OUT_##N                                                           \
                     : "l"(a), "l"(b));                                                        \
    }                                                                                          \
    DEVICE void wgmma_cross_first_##N(float *d, unsigned long long a, unsigned long long b) {  \
        asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, 0, 0;\n"                          \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." WGMMA_TYPES             \
                     " {" WGMMA_NUMBERS_##N "}, %" #i0 ", %" #i1 ", more, 1, 1, 0, 1;\n}"      \
                     : WGMMA_OUT_##N                                                           \
                     : "l"(a), "l"(b));                                                        \
    }                                                                                          \
    DEVICE void wgmma_cross_##N(float *d, unsigned long long a, unsigned long long b) {        \
        asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, 1, 0;\n"                          \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." WGMMA_TYPES             \
                     " {" WGMMA_NUMBERS_##N "}, %" #i0 ", %" #i1 ", more, 1, 1, 0, 1;\n}"      \
                     : WGMMA_RESULTS_##N                                                       \
                     : "l"(a), "l"(b));                                                        \
    }

WGMMA_BOTH_OF(32, 16, 17)
WGMMA_BOTH_OF(48, 24, 25)
WGMMA_BOTH_OF(64, 32, 33)
WGMMA_BOTH_OF(80, 40, 41)
WGMMA_BOTH_OF(96, 48, 49)
WGMMA_BOTH_OF(128, 64, 65)

#define WGMMA_FIRST(N)       WGMMA_PASTE(wgmma_first_, N)
#define WGMMA_CROSS_FIRST(N) WGMMA_PASTE(wgmma_cross_first_, N)
#define WGMMA_CROSS(N)       WGMMA_PASTE(wgmma_cross_, N)

#endif
