/* bwd_sums.cu: the gradients of sinks and slopes, from the partial sums of other kernels
 * COMPUTES d_sinks[h] and d_alibi[b, h] (or [h] if batch entries share slopes), each as a
 *          negated sum; one block per result
 * THREADS  32 * WARPS
 * NUMERICS float64 in a fixed order: the same bits on every run */
#include "kernels/bwd_params.h"
#include "kernels/config.cuh"

DEVICE double sum_of_warp(double x) {
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* The sum of `count` numbers, for thread 0. */
DEVICE double sum_of_block(const float *from, long long count, double *sums) {
    double x = 0.0;
    for (long long i = threadIdx.x; i < count; i += 32 * WARPS)
        x += (double)from[i];
    x = sum_of_warp(x);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0.0;
    for (int w = 0; w < WARPS; w++)
        x += sums[w];
    return x;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) KERNEL(const __grid_constant__ att_bwd_params params) {
    __shared__ double sums[WARPS];
    const att_bwd_params *p = &params;
    const att_fwd_params *f = &p->fwd;
    const int sinks = p->d_sinks ? f->heads_q : 0, number = blockIdx.x;
    if (number < sinks) {
        const long long count = (long long)f->batch * p->row_blocks;
        const double sum = sum_of_block(p->sink_sums + number * count, count, sums);
        if (threadIdx.x == 0)
            p->d_sinks[number] = (float)-sum;
        return;
    }
    const int shared = f->alibi_batch == 0, batch = shared ? 0 : (number - sinks) / f->heads_q;
    const int head = number - sinks - batch * f->heads_q;
    const long long each = (long long)p->key_tiles * p->alibi_parts, first = (long long)head * f->batch + batch;
    const double sum = sum_of_block(p->alibi_sums + first * each, shared ? f->batch * each : each, sums);
    if (threadIdx.x == 0)
        p->d_alibi[batch * f->alibi_batch + head] = (float)-sum;
}
