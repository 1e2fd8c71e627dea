/* cuda_builtins.h: the built-ins of CUDA C as C++ for the host; force-included ahead of a rewritten kernel.
 *
 * What other threads can see, or wait for, is a call of the virtual GPU (abi.h) that says where it stands in the source. No header
 * of the host beyond abi.h's: a kernel must find no names that CUDA C does not have. */
#ifndef ATT_VGPU_CUDA_BUILTINS_H
#define ATT_VGPU_CUDA_BUILTINS_H

#include "abi.h"

/* ------------------------------------------------------------ words of the language */

#define __global__
#define __device__
#define __host__
#define __constant__
/* No more than inline: kernels would take twice the time to compile. */
#define __forceinline__ inline
#undef __noinline__
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (vgpu_self->thread)
#define blockIdx  (vgpu_self->block)
#define gridDim   vgpu_grid_size
#define blockDim  vgpu_block_size
#define warpSize  32
typedef vgpu_dim3 dim3;

#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif

#define VGPU_BUILTIN static inline __attribute__((always_inline))

/* The last parameters of a function that others notice: where it is called. */
#define VGPU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* ------------------------------------------------------------ vectors */

#define VGPU_VECTORS(name, T)                                                                  \
    struct alignas(2 * sizeof(T)) name##2 {                                                    \
        T x, y;                                                                                \
    };                                                                                         \
    struct name##3 {                                                                           \
        T x, y, z;                                                                             \
    };                                                                                         \
    struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) name##4 {                               \
        T x, y, z, w;                                                                          \
    };                                                                                         \
    VGPU_BUILTIN name##2 make_##name##2(T x, T y) {                                            \
        return {x, y};                                                                         \
    }                                                                                          \
    VGPU_BUILTIN name##3 make_##name##3(T x, T y, T z) {                                       \
        return {x, y, z};                                                                      \
    }                                                                                          \
    VGPU_BUILTIN name##4 make_##name##4(T x, T y, T z, T w) {                                  \
        return {x, y, z, w};                                                                   \
    }
VGPU_VECTORS(char, signed char)
VGPU_VECTORS(uchar, unsigned char)
VGPU_VECTORS(short, short)
VGPU_VECTORS(ushort, unsigned short)
VGPU_VECTORS(int, int)
VGPU_VECTORS(uint, unsigned)
VGPU_VECTORS(longlong, long long)
VGPU_VECTORS(ulonglong, unsigned long long)
VGPU_VECTORS(float, float)
VGPU_VECTORS(double, double)

/* ------------------------------------------------------------ bits */

template <class T> VGPU_BUILTIN uint64_t vgpu_bits(T x) {
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &x, sizeof x);
    return bits;
}

template <class T> VGPU_BUILTIN T vgpu_from_bits(uint64_t bits) {
    T x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

VGPU_BUILTIN float __int_as_float(int x) {
    return vgpu_from_bits<float>((unsigned)x);
}
VGPU_BUILTIN float __uint_as_float(unsigned x) {
    return vgpu_from_bits<float>(x);
}
VGPU_BUILTIN int __float_as_int(float x) {
    return (int)vgpu_bits(x);
}
VGPU_BUILTIN unsigned __float_as_uint(float x) {
    return (unsigned)vgpu_bits(x);
}
VGPU_BUILTIN double __longlong_as_double(long long x) {
    return vgpu_from_bits<double>((uint64_t)x);
}
VGPU_BUILTIN long long __double_as_longlong(double x) {
    return (long long)vgpu_bits(x);
}

VGPU_BUILTIN int __ffs(int x) {
    return __builtin_ffs(x);
}
VGPU_BUILTIN int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
VGPU_BUILTIN int __popc(unsigned x) {
    return __builtin_popcount(x);
}
VGPU_BUILTIN int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
VGPU_BUILTIN int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
VGPU_BUILTIN int __clzll(long long x) {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
VGPU_BUILTIN unsigned __brev(unsigned x) {
    unsigned out = 0;
    for (int i = 0; i < 32; i++)
        out |= (x >> i & 1) << (31 - i);
    return out;
}
VGPU_BUILTIN unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
VGPU_BUILTIN int __mulhi(int a, int b) {
    return (int)((int64_t)a * b >> 32);
}
VGPU_BUILTIN unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
VGPU_BUILTIN unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}

/* Byte i of the result is the one of a (0 to 3) and b (4 to 7) that digit i of the selector names; 8 more: its sign. */
VGPU_BUILTIN unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t both = (uint64_t)b << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned digit = selector >> 4 * i & 15;
        const unsigned byte = (unsigned)(both >> 8 * (digit & 7) & 255);
        out |= (digit & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return out;
}

/* ------------------------------------------------------------ numbers */

/* Those of libm. */
#define VGPU_LIBM(name)                                                                        \
    extern "C" float name##f(float);                                                           \
    extern "C" double name(double);                                                            \
    VGPU_BUILTIN float name(float x) {                                                         \
        return name##f(x);                                                                     \
    }
VGPU_LIBM(exp)
VGPU_LIBM(exp2)
VGPU_LIBM(expm1)
VGPU_LIBM(log)
VGPU_LIBM(log2)
VGPU_LIBM(log1p)
VGPU_LIBM(tanh)
VGPU_LIBM(sin)
VGPU_LIBM(cos)
VGPU_LIBM(erf)
extern "C" float powf(float, float), fmodf(float, float), ldexpf(float, int);
extern "C" double pow(double, double), fmod(double, double), ldexp(double, int);

/* Those that the compiler knows. */
#define VGPU_NUMBERS_1(name)                                                                   \
    VGPU_BUILTIN float name##f(float x) {                                                      \
        return __builtin_##name##f(x);                                                         \
    }                                                                                          \
    VGPU_BUILTIN float name(float x) {                                                         \
        return __builtin_##name##f(x);                                                         \
    }                                                                                          \
    VGPU_BUILTIN double name(double x) {                                                       \
        return __builtin_##name(x);                                                            \
    }
#define VGPU_NUMBERS_2(name)                                                                   \
    VGPU_BUILTIN float name##f(float x, float y) {                                             \
        return __builtin_##name##f(x, y);                                                      \
    }                                                                                          \
    VGPU_BUILTIN float name(float x, float y) {                                                \
        return __builtin_##name##f(x, y);                                                      \
    }                                                                                          \
    VGPU_BUILTIN double name(double x, double y) {                                             \
        return __builtin_##name(x, y);                                                         \
    }
VGPU_NUMBERS_1(fabs)
VGPU_NUMBERS_1(sqrt)
VGPU_NUMBERS_1(floor)
VGPU_NUMBERS_1(ceil)
VGPU_NUMBERS_1(trunc)
VGPU_NUMBERS_1(rint)
VGPU_NUMBERS_2(copysign)

/* Of a number and a NaN, the number. The compiler would call libm. */
#define VGPU_EXTREME(name, order)                                                              \
    VGPU_BUILTIN float name##f(float x, float y) {                                             \
        return x order y || y != y ? x : y;                                                    \
    }                                                                                          \
    VGPU_BUILTIN float name(float x, float y) {                                                \
        return x order y || y != y ? x : y;                                                    \
    }                                                                                          \
    VGPU_BUILTIN double name(double x, double y) {                                             \
        return x order y || y != y ? x : y;                                                    \
    }
VGPU_EXTREME(fmax, >)
VGPU_EXTREME(fmin, <)
VGPU_BUILTIN float fmaf(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
VGPU_BUILTIN float fma(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
VGPU_BUILTIN double fma(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}
VGPU_BUILTIN float rsqrtf(float x) {
    return 1.0f / __builtin_sqrtf(x);
}
VGPU_BUILTIN bool isnan(double x) {
    return __builtin_isnan(x);
}
VGPU_BUILTIN bool isinf(double x) {
    return __builtin_isinf(x);
}
VGPU_BUILTIN bool isfinite(double x) {
    return __builtin_isfinite(x);
}

/* The compiler contracts a * b + c, as CUDA's does, but not where a result is asked to be rounded. */
VGPU_BUILTIN float vgpu_rounded(float x) {
    __asm__("" : "+m"(x));
    return x;
}
VGPU_BUILTIN float __fadd_rn(float a, float b) {
    return vgpu_rounded(a + b);
}
VGPU_BUILTIN float __fsub_rn(float a, float b) {
    return vgpu_rounded(a - b);
}
VGPU_BUILTIN float __fmul_rn(float a, float b) {
    return vgpu_rounded(a * b);
}
VGPU_BUILTIN float __fdiv_rn(float a, float b) {
    return a / b;
}
VGPU_BUILTIN float __fmaf_rn(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
VGPU_BUILTIN float __frcp_rn(float x) {
    return 1.0f / x;
}
VGPU_BUILTIN float __fsqrt_rn(float x) {
    return __builtin_sqrtf(x);
}
VGPU_BUILTIN float __frsqrt_rn(float x) {
    return 1.0f / __builtin_sqrtf(x);
}
VGPU_BUILTIN float __fdividef(float a, float b) {
    return a / b;
}
VGPU_BUILTIN float __expf(float x) {
    return expf(x);
}
VGPU_BUILTIN float __logf(float x) {
    return logf(x);
}
VGPU_BUILTIN float __log2f(float x) {
    return log2f(x);
}
VGPU_BUILTIN float __saturatef(float x) {
    return fminf(fmaxf(x, 0.0f), 1.0f);
}
VGPU_BUILTIN int __float2int_rn(float x) {
    return (int)__builtin_rintf(x);
}
VGPU_BUILTIN int __float2int_rd(float x) {
    return (int)__builtin_floorf(x);
}
VGPU_BUILTIN float __int2float_rn(int x) {
    return (float)x;
}
VGPU_BUILTIN float __uint2float_rn(unsigned x) {
    return (float)x;
}

#define VGPU_MIN_MAX(A, B, R)                                                                  \
    VGPU_BUILTIN R min(A a, B b) {                                                             \
        return (R)a < (R)b ? (R)a : (R)b;                                                      \
    }                                                                                          \
    VGPU_BUILTIN R max(A a, B b) {                                                             \
        return (R)a > (R)b ? (R)a : (R)b;                                                      \
    }
VGPU_MIN_MAX(int, int, int)
VGPU_MIN_MAX(unsigned, unsigned, unsigned)
VGPU_MIN_MAX(int, unsigned, unsigned)
VGPU_MIN_MAX(unsigned, int, unsigned)
VGPU_MIN_MAX(long, long, long)
VGPU_MIN_MAX(unsigned long, unsigned long, unsigned long)
VGPU_MIN_MAX(long long, long long, long long)
VGPU_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
VGPU_BUILTIN float min(float a, float b) {
    return fminf(a, b);
}
VGPU_BUILTIN float max(float a, float b) {
    return fmaxf(a, b);
}
VGPU_BUILTIN int abs(int x) {
    return x < 0 ? -x : x;
}

/* ------------------------------------------------------------ memory */

template <class T> VGPU_BUILTIN T __ldg(const T *p) {
    return *p;
}
template <class T> VGPU_BUILTIN T __ldcs(const T *p) {
    return *p;
}
/* From L2, where other blocks' writes are: these may come first. */
template <class T> VGPU_BUILTIN T __ldcg(const T *p, VGPU_HERE) {
    vgpu_pause(file, line);
    return *p;
}
template <class T> VGPU_BUILTIN T __ldcv(const T *p, VGPU_HERE) {
    vgpu_pause(file, line);
    return *p;
}
template <class T> VGPU_BUILTIN void __stcg(T *p, T x) {
    *p = x;
}
template <class T> VGPU_BUILTIN void __stcs(T *p, T x) {
    *p = x;
}

VGPU_BUILTIN size_t __cvta_generic_to_shared(const void *p) {
    return vgpu_to_shared(p);
}
VGPU_BUILTIN void *__cvta_shared_to_generic(size_t address) {
    return vgpu_from_shared((unsigned)address);
}
VGPU_BUILTIN size_t __cvta_generic_to_global(const void *p) {
    return (size_t)p;
}

VGPU_BUILTIN void __threadfence(VGPU_HERE) {
    vgpu_threadfence(file, line);
}
VGPU_BUILTIN void __threadfence_block(VGPU_HERE) {
    vgpu_threadfence(file, line);
}

#define VGPU_ATOMIC(name, what, T)                                                             \
    VGPU_BUILTIN T name(T *p, T x, VGPU_HERE) {                                                \
        return vgpu_from_bits<T>(                                                              \
            vgpu_atomic(what, (void *)p, sizeof x, vgpu_bits(x), 0, file, line));              \
    }
#define VGPU_ATOMIC_UNSIGNED(name, what)                                                       \
    VGPU_ATOMIC(name, what, unsigned)                                                          \
    VGPU_ATOMIC(name, what, unsigned long long)
VGPU_ATOMIC_UNSIGNED(atomicAdd, VGPU_ATOMIC_ADD)
VGPU_ATOMIC(atomicAdd, VGPU_ATOMIC_ADD, int)
VGPU_ATOMIC(atomicAdd, VGPU_ATOMIC_ADD_FLOAT, float)
VGPU_ATOMIC_UNSIGNED(atomicOr, VGPU_ATOMIC_OR)
VGPU_ATOMIC(atomicOr, VGPU_ATOMIC_OR, int)
VGPU_ATOMIC_UNSIGNED(atomicAnd, VGPU_ATOMIC_AND)
VGPU_ATOMIC(atomicAnd, VGPU_ATOMIC_AND, int)
VGPU_ATOMIC_UNSIGNED(atomicMax, VGPU_ATOMIC_MAX)
VGPU_ATOMIC_UNSIGNED(atomicMin, VGPU_ATOMIC_MIN)
VGPU_ATOMIC_UNSIGNED(atomicExch, VGPU_ATOMIC_EXCH)
VGPU_ATOMIC(atomicExch, VGPU_ATOMIC_EXCH, int)
VGPU_ATOMIC(atomicExch, VGPU_ATOMIC_EXCH, float)

#define VGPU_ATOMIC_COMPARE(T)                                                                 \
    VGPU_BUILTIN T atomicCAS(T *p, T compare, T x, VGPU_HERE) {                                \
        return vgpu_from_bits<T>(vgpu_atomic(VGPU_ATOMIC_CAS, (void *)p, sizeof x,             \
                                             vgpu_bits(x), vgpu_bits(compare), file, line));   \
    }
VGPU_ATOMIC_COMPARE(int)
VGPU_ATOMIC_COMPARE(unsigned)
VGPU_ATOMIC_COMPARE(unsigned long long)

VGPU_BUILTIN unsigned atomicSub(unsigned *p, unsigned x, VGPU_HERE) {
    return atomicAdd(p, 0u - x, file, line);
}
VGPU_BUILTIN int atomicSub(int *p, int x, VGPU_HERE) {
    return atomicAdd(p, -x, file, line);
}

/* The virtual GPU compares without a sign. */
VGPU_BUILTIN int atomicMax(int *p, int x, VGPU_HERE) {
    int old = atomicOr(p, 0, file, line);
    for (int seen; x > old; old = seen)
        if ((seen = atomicCAS(p, old, x, file, line)) == old)
            break;
    return old;
}
VGPU_BUILTIN int atomicMin(int *p, int x, VGPU_HERE) {
    int old = atomicOr(p, 0, file, line);
    for (int seen; x < old; old = seen)
        if ((seen = atomicCAS(p, old, x, file, line)) == old)
            break;
    return old;
}

/* ------------------------------------------------------------ threads together */

VGPU_BUILTIN void __syncthreads(VGPU_HERE) {
    vgpu_syncthreads(file, line);
}
VGPU_BUILTIN void __syncwarp(unsigned mask = 0xffffffffu, VGPU_HERE) {
    vgpu_vote(VGPU_SYNCWARP, mask, 0, 0, file, line);
}

VGPU_BUILTIN unsigned __ballot_sync(unsigned mask, int x, VGPU_HERE) {
    return (unsigned)vgpu_vote(VGPU_BALLOT, mask, x != 0, 0, file, line);
}
VGPU_BUILTIN int __any_sync(unsigned mask, int x, VGPU_HERE) {
    return (int)vgpu_vote(VGPU_ANY, mask, x != 0, 0, file, line);
}
VGPU_BUILTIN int __all_sync(unsigned mask, int x, VGPU_HERE) {
    return (int)vgpu_vote(VGPU_ALL, mask, x != 0, 0, file, line);
}

VGPU_BUILTIN int vgpu_lane_index(void) {
    const vgpu_dim3 t = threadIdx, n = blockDim;
    return (int)((t.x + n.x * (t.y + n.y * t.z)) % warpSize);
}

/* From the lane `source`, or from itself where that is not among the `width` lanes that it shuffles with. */
template <class T>
VGPU_BUILTIN T vgpu_shuffle(unsigned mask, T x, int source, bool outside, const char *file,
                            int line) {
    return vgpu_from_bits<T>(vgpu_vote(VGPU_SHUFFLE, mask, vgpu_bits(x),
                                       outside ? vgpu_lane_index() : source, file, line));
}
template <class T>
VGPU_BUILTIN T __shfl_sync(unsigned mask, T x, int source, int width = warpSize, VGPU_HERE) {
    const int first = vgpu_lane_index() & -width;
    return vgpu_shuffle(mask, x, first | (source & (width - 1)), false, file, line);
}
template <class T>
VGPU_BUILTIN T __shfl_xor_sync(unsigned mask, T x, int bits, int width = warpSize, VGPU_HERE) {
    const int lane = vgpu_lane_index(), source = lane ^ bits;
    return vgpu_shuffle(mask, x, source, source >= (lane & -width) + width, file, line);
}
template <class T>
VGPU_BUILTIN T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = warpSize,
                              VGPU_HERE) {
    const int lane = vgpu_lane_index(), source = lane - (int)by;
    return vgpu_shuffle(mask, x, source, source < (lane & -width), file, line);
}
template <class T>
VGPU_BUILTIN T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = warpSize,
                                VGPU_HERE) {
    const int lane = vgpu_lane_index(), source = lane + (int)by;
    return vgpu_shuffle(mask, x, source, source >= (lane & -width) + width, file, line);
}

#define VGPU_REDUCE(name, what)                                                                \
    VGPU_BUILTIN unsigned name(unsigned mask, unsigned x, VGPU_HERE) {                         \
        return (unsigned)vgpu_vote(what, mask, x, 0, file, line);                              \
    }
VGPU_REDUCE(__reduce_add_sync, VGPU_REDUCE_ADD)
VGPU_REDUCE(__reduce_max_sync, VGPU_REDUCE_MAX)
VGPU_REDUCE(__reduce_min_sync, VGPU_REDUCE_MIN)
VGPU_REDUCE(__reduce_or_sync, VGPU_REDUCE_OR)
VGPU_REDUCE(__reduce_and_sync, VGPU_REDUCE_AND)
VGPU_BUILTIN int __reduce_add_sync(unsigned mask, int x, VGPU_HERE) {
    return (int)vgpu_vote(VGPU_REDUCE_ADD, mask, (unsigned)x, 0, file, line);
}
/* With the sign bit turned, numbers with a sign are in the order of those without. */
VGPU_BUILTIN int __reduce_max_sync(unsigned mask, int x, VGPU_HERE) {
    const unsigned sign = 1u << 31;
    return (int)((unsigned)vgpu_vote(VGPU_REDUCE_MAX, mask, (unsigned)x ^ sign, 0, file, line) ^
                 sign);
}
VGPU_BUILTIN int __reduce_min_sync(unsigned mask, int x, VGPU_HERE) {
    const unsigned sign = 1u << 31;
    return (int)((unsigned)vgpu_vote(VGPU_REDUCE_MIN, mask, (unsigned)x ^ sign, 0, file, line) ^
                 sign);
}

/* ------------------------------------------------------------ operands of asm statements */

/* By constraint, as rewrite.c calls them. Types that do not fit the constraint do not compile, as with CUDA's compiler. */
#define VGPU_INPUT(type, T)                                                                    \
    VGPU_BUILTIN uint64_t vgpu_in_##type(T x) {                                                \
        return vgpu_bits(x);                                                                   \
    }
#define VGPU_OPERAND(type, T)                                                                  \
    VGPU_INPUT(type, T)                                                                        \
    VGPU_BUILTIN uint64_t vgpu_out_##type(T &x) {                                              \
        return (uint64_t)&x;                                                                   \
    }
VGPU_OPERAND(h, short)
VGPU_OPERAND(h, unsigned short)
VGPU_OPERAND(r, int)
VGPU_OPERAND(r, unsigned)
VGPU_OPERAND(l, long)
VGPU_OPERAND(l, unsigned long)
VGPU_OPERAND(l, long long)
VGPU_OPERAND(l, unsigned long long)
VGPU_INPUT(l, const volatile void *)
VGPU_OPERAND(f, float)
VGPU_OPERAND(d, double)
uint64_t vgpu_in_f(double) = delete;
uint64_t vgpu_in_f(int) = delete;
uint64_t vgpu_in_d(float) = delete;
uint64_t vgpu_in_d(int) = delete;
VGPU_BUILTIN constexpr uint64_t vgpu_in_n(long long x) {
    return (uint64_t)x;
}

#endif
