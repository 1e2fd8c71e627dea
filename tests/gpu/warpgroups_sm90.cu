/* warpgroups_sm90.cu: a warpgroup gives registers up, two others take them and use the block's time in turn, as the
 * producer and the consumers of fwd_sm90 do. */
#include "kernels/warpgroup.cuh"
#include "tests/gpu/primitives_sm90_params.h"

enum { THREADS = 32 * WARPS, HELD = 192, ROUNDS = 64, TURN = 1 };

/* out[thread] = the sum of HELD numbers that all live at once; out[THREADS + turn] = the warpgroup that had it. */
extern "C" __global__ void __launch_bounds__(THREADS, 1) KERNEL(const __grid_constant__ primitives_sm90_params p) {
    __shared__ int turns;
    const int group = uniform((int)threadIdx.x / WARPGROUP);
    if (threadIdx.x == 0)
        turns = 0;
    __syncthreads();
    int *out = (int *)p.out;
    if (group == 0) {
        REGISTERS_KEEP(40);
        out[threadIdx.x] = 0;
        return;
    }
    REGISTERS_TAKE(232);
    int held[HELD];
#pragma unroll
    for (int i = 0; i < HELD; i++)
        held[i] = ((const volatile int *)p.a)[i] + (int)threadIdx.x;
#pragma unroll
    for (int i = 0; i < HELD; i++) /* each depends on all before: none may be forgotten early */
        held[HELD - 1 - i] += held[i] * (i + 1);
    int sum = 0;
#pragma unroll
    for (int i = 0; i < HELD; i++)
        sum += held[i] ^ i;
    out[threadIdx.x] = sum;
    if (group == 2) /* the first turn is of warpgroup 1 */
        named_barrier_arrive(TURN, 2 * WARPGROUP);
    for (int i = 0; i < ROUNDS; i++) {
        named_barrier_wait(TURN + group - 1, 2 * WARPGROUP);
        if (threadIdx.x % WARPGROUP == 0) {
            volatile int *count = &turns;
            out[THREADS + *count] = group;
            *count = *count + 1;
        }
        __threadfence_block();
        if (i + 1 < ROUNDS || group == 1)
            named_barrier_arrive(TURN + (group == 1 ? 1 : 0), 2 * WARPGROUP);
    }
}
