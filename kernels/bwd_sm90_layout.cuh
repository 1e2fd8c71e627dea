/* bwd_sm90_layout.cuh: the layout of shared memory of the kernel that is compiled. */
#ifndef ATT_BWD_SM90_LAYOUT_CUH
#define ATT_BWD_SM90_LAYOUT_CUH

#include "kernels/bwd_sm90_work.cuh"
#if IS_WIDE
#include "kernels/bwd_sm90_wide_shared.cuh"
#else
#include "kernels/bwd_sm90_shared.cuh"
#endif

#endif
