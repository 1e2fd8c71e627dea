/* bwd_sm90_consumer.cuh: the state of a consumer of the kernel that is compiled, and the parts
 * of its steps. */
#ifndef ATT_BWD_SM90_CONSUMER_CUH
#define ATT_BWD_SM90_CONSUMER_CUH

#include "kernels/bwd_sm90_work.cuh"
#if IS_WIDE
#include "kernels/bwd_sm90_wide_step.cuh"
#else
#include "kernels/bwd_sm90_step.cuh"
#endif

#endif
