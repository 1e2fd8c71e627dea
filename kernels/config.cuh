/* config.cuh: names for the columns of kernels.def, which the code receives as macros. */
#ifndef ATT_CONFIG_CUH
#define ATT_CONFIG_CUH

#include "kernels/fwd_params.h"
#include "kernels/switches.cuh"

/* DTYPE */
enum { ANY = 0, F32 = ATT_FWD_F32, F16 = ATT_FWD_F16, BF16 = ATT_FWD_BF16, BOOL8 = ATT_FWD_BOOL8 };

/* ROLE, in the order of att_cuda_role */
enum { PLAIN, GENERAL, DECODE, COMBINE, RUNG, SMALL, MASK, SPLIT };

/* FEATURES, the bits ATT_FEATURE_* of src/cuda/row.h: compiled-in features that change the
 * scores or where keys are stored. */
enum { FEATURE_ALIBI = 1, FEATURE_SOFTCAP = 2, FEATURE_BIAS = 4, FEATURE_MASK = 8, FEATURE_PAGES = 16 };
#ifndef FEATURES
#define FEATURES 0
#endif

#if !defined(KERNEL) || !defined(ROLE) || !defined(DTYPE) || !defined(D_QK) || !defined(D_V) ||    \
    !defined(TILE_M) || !defined(TILE_N) || !defined(STAGES) || !defined(WARPS)
#error "a kernel needs every column of its row in kernels.def: KERNEL ROLE DTYPE D_QK D_V TILE_M TILE_N STAGES WARPS"
#endif

/* The dynamic shared memory that the host gives a block (src/cuda/shape.c), which the kernel
 * checks against its layout. 0 if a kernel is compiled by hand. */
#ifndef SHARED_BYTES
#define SHARED_BYTES 0
#endif
#define CHECK_SHARED(bytes)                                                                        \
    static_assert(SHARED_BYTES == 0 || SHARED_BYTES == (bytes), "src/cuda/shape.c and the kernel agree")

#define DEVICE static __device__ __forceinline__

/* A 16-bit element of any type. */
typedef unsigned short half_bits;

#endif
