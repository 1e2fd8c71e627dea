/* simd_wide.h: the engine's vector of 16 lanes: AVX-512, or plain C.
 *
 * With ATT_AVX512_EMULATE the kernels for AVX-512 and AVX512-BF16 run on processors without
 * them. Only tests use this. */
#ifndef ATT_CPU_SIMD_WIDE_H
#define ATT_CPU_SIMD_WIDE_H

#ifdef ATT_AVX512_EMULATE
#define VF_LANES 16
#include "cpu/simd_portable.h"
#else
#include "cpu/simd_avx512.h"
#endif

#endif
