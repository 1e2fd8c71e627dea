/* wgmma.cuh: products of a warpgroup on the tensor cores of Hopper (sm_90a).
 *
 * D (64 x N float32) += A (64 x 16) B (16 x N). Warp w holds rows 16w to 16w + 15 of D in the
 * layout of mma.cuh's results: d[4i + e] is row lane / 4 + e / 2 * 8, column 8i + lane % 4 * 2
 * + e % 2. A is in shared memory or, as mma.cuh's left operand, in registers; B is in shared
 * memory. Products are in flight until waited for: until then nobody may access D, or overwrite
 * A or B.
 *
 * Tiles in shared memory are panels of 64 columns: rows of 128 bytes, swizzled, on a boundary
 * of 1024 bytes. Q and K are K-major (the 16 summed over are columns), V is MN-major (they are
 * rows). */
#ifndef ATT_WGMMA_CUH
#define ATT_WGMMA_CUH

#include "kernels/config.cuh"

/* A shared-memory address in the form of operands: in units of 16 bytes, within the block. */
DEVICE unsigned wgmma_address(unsigned address) {
    return (address & 0x3ffff) >> 4;
}

/* The descriptor of an operand. Eight rows are 1024 bytes; if N spans several panels, they are
 * `panel` bytes apart. */
DEVICE unsigned long long wgmma_operand(unsigned wgmma_address, int panel) {
    return 1ull << 62 | (unsigned long long)(1024 >> 4) << 32 | (unsigned long long)((panel >> 4 << 16) + wgmma_address);
}

/* A step within an operand: the next 16 columns of a K-major one within a panel, the next 16
 * rows of an MN-major one, or any other multiple of 16 bytes. */
#define WGMMA_STEP(bytes) ((unsigned long long)((bytes) >> 4))

/* Order earlier writes to registers and shared memory before the products that follow. */
DEVICE void wgmma_fence(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void wgmma_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Wait until at most `left` groups are in flight, a constant. */
#define WGMMA_WAIT(left) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory")

/* Results may be read from here on: keeps the compiler from reading them before the wait. */
DEVICE void wgmma_results(float *d, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

/* Zero sums before the first product, here and not later. */
DEVICE void wgmma_zero(float *d, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        asm volatile("mov.f32 %0, 0f00000000;" : "=f"(d[i])::"memory");
}

#define WGMMA_TYPE_F16  "f16"
#define WGMMA_TYPE_BF16 "bf16"
#define WGMMA_PASTE_(a, b) a##b
#define WGMMA_PASTE(a, b)  WGMMA_PASTE_(a, b)
#define WGMMA_TYPES        WGMMA_PASTE(WGMMA_TYPE_, DTYPE) "." WGMMA_PASTE(WGMMA_TYPE_, DTYPE)

/* Operand numbers, and operands, of the first N columns of D. */
#define WGMMA_NUMBERS_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_NUMBERS_32 WGMMA_NUMBERS_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NUMBERS_48 WGMMA_NUMBERS_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_NUMBERS_64 WGMMA_NUMBERS_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NUMBERS_80 WGMMA_NUMBERS_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_NUMBERS_96 WGMMA_NUMBERS_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NUMBERS_112 WGMMA_NUMBERS_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_NUMBERS_128 WGMMA_NUMBERS_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NUMBERS_144 WGMMA_NUMBERS_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_NUMBERS_160 WGMMA_NUMBERS_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_NUMBERS_176 WGMMA_NUMBERS_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_NUMBERS_192 WGMMA_NUMBERS_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_NUMBERS_208 WGMMA_NUMBERS_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_NUMBERS_224 WGMMA_NUMBERS_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_NUMBERS_240 WGMMA_NUMBERS_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_NUMBERS_256 WGMMA_NUMBERS_240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_EIGHT(i)                                                                                    \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),    \
        "+f"(d[i + 7])
#define WGMMA_RESULTS_16 WGMMA_EIGHT(0)
#define WGMMA_RESULTS_32 WGMMA_RESULTS_16, WGMMA_EIGHT(8)
#define WGMMA_RESULTS_48 WGMMA_RESULTS_32, WGMMA_EIGHT(16)
#define WGMMA_RESULTS_64 WGMMA_RESULTS_48, WGMMA_EIGHT(24)
#define WGMMA_RESULTS_80 WGMMA_RESULTS_64, WGMMA_EIGHT(32)
#define WGMMA_RESULTS_96 WGMMA_RESULTS_80, WGMMA_EIGHT(40)
#define WGMMA_RESULTS_112 WGMMA_RESULTS_96, WGMMA_EIGHT(48)
#define WGMMA_RESULTS_128 WGMMA_RESULTS_112, WGMMA_EIGHT(56)
#define WGMMA_RESULTS_144 WGMMA_RESULTS_128, WGMMA_EIGHT(64)
#define WGMMA_RESULTS_160 WGMMA_RESULTS_144, WGMMA_EIGHT(72)
#define WGMMA_RESULTS_176 WGMMA_RESULTS_160, WGMMA_EIGHT(80)
#define WGMMA_RESULTS_192 WGMMA_RESULTS_176, WGMMA_EIGHT(88)
#define WGMMA_RESULTS_208 WGMMA_RESULTS_192, WGMMA_EIGHT(96)
#define WGMMA_RESULTS_224 WGMMA_RESULTS_208, WGMMA_EIGHT(104)
#define WGMMA_RESULTS_240 WGMMA_RESULTS_224, WGMMA_EIGHT(112)
#define WGMMA_RESULTS_256 WGMMA_RESULTS_240, WGMMA_EIGHT(120)

/* wgmma_N(d, a, b, more): both in shared memory, K-major. wgmma_k_N: A in registers, B K-major.
 * wgmma_mn_N: A in registers, B MN-major. more = 0: D is overwritten. The macro's arguments are
 * the numbers of the operands after D. */
#define WGMMA_OF(N, i0, i1, i2, i3, i4, i5)                                                                          \
    DEVICE void wgmma_##N(float *d, unsigned long long a, unsigned long long b, int more) {                                \
        asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, %" #i2 ", 0;\n"                                              \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." WGMMA_TYPES " {" WGMMA_NUMBERS_##N "}, %" #i0 ", %" #i1           \
                     ", more, 1, 1, 0, 0;\n}"                                                                             \
                     : WGMMA_RESULTS_##N                                                                                                   \
                     : "l"(a), "l"(b), "r"(more));                                                                         \
    }                                                                                                                      \
    DEVICE void wgmma_k_##N(float *d, const unsigned a[4], unsigned long long b, int more) {                               \
        asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, %" #i5 ", 0;\n"                                              \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." WGMMA_TYPES " {" WGMMA_NUMBERS_##N "}, {%" #i0 ", %" #i1 ", %" #i2 \
                     ", %" #i3 "}, %" #i4 ", more, 1, 1, 0;\n}"                                                          \
                     : WGMMA_RESULTS_##N                                                                                                   \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more));                                     \
    }                                                                                                                      \
    DEVICE void wgmma_mn_##N(float *d, const unsigned a[4], unsigned long long b, int more) {                              \
        asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, %" #i5 ", 0;\n"                                              \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." WGMMA_TYPES " {" WGMMA_NUMBERS_##N "}, {%" #i0 ", %" #i1 ", %" #i2 \
                     ", %" #i3 "}, %" #i4 ", more, 1, 1, 1;\n}"                                                          \
                     : WGMMA_RESULTS_##N                                                                                                   \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more));                                     \
    }

WGMMA_OF(16, 8, 9, 10, 11, 12, 13)
WGMMA_OF(32, 16, 17, 18, 19, 20, 21)
WGMMA_OF(48, 24, 25, 26, 27, 28, 29)
WGMMA_OF(64, 32, 33, 34, 35, 36, 37)
WGMMA_OF(80, 40, 41, 42, 43, 44, 45)
WGMMA_OF(96, 48, 49, 50, 51, 52, 53)
WGMMA_OF(112, 56, 57, 58, 59, 60, 61)
WGMMA_OF(128, 64, 65, 66, 67, 68, 69)
WGMMA_OF(144, 72, 73, 74, 75, 76, 77)
WGMMA_OF(160, 80, 81, 82, 83, 84, 85)
WGMMA_OF(176, 88, 89, 90, 91, 92, 93)
WGMMA_OF(192, 96, 97, 98, 99, 100, 101)
WGMMA_OF(256, 128, 129, 130, 131, 132, 133)

/* The product for N columns, N a macro. */
#define WGMMA(N)    WGMMA_PASTE(wgmma_, N)
#define WGMMA_K(N)  WGMMA_PASTE(wgmma_k_, N)
#define WGMMA_MN(N) WGMMA_PASTE(wgmma_mn_, N)

#endif
