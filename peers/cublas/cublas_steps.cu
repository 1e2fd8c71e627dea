/* cublas_steps.cu: what stands between cuBLAS's two products: pointers of every head before them, a softmax between them.
 * THREADS  256: a head a thread, or a row of scores a warp
 * NUMERICS float32 scores; weights divided by their sum, then rounded to the type of Q, as plain code does it */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "peers/cublas/cublas_steps.h"

extern "C" __global__ void peer_cublas_pointers(const __grid_constant__ peer_cublas_params p) {
    const int at = (int)(blockIdx.x * blockDim.x + threadIdx.x), count = p.batch * p.heads_q;
    if (at >= count)
        return;
    const long long b = at / p.heads_q, h = at % p.heads_q, kv = h / p.group;
    const long long rows = (long long)at * p.seq_q * p.pitch;
    p.pointers[at] = (const char *)p.q + 2 * (b * p.q_batch + h * p.q_head);
    p.pointers[at + count] = (const char *)p.k + 2 * (b * p.k_batch + kv * p.k_head);
    p.pointers[at + 2 * count] = p.scores + rows;
    p.pointers[at + 3 * count] = (const char *)p.v + 2 * (b * p.v_batch + kv * p.v_head);
    p.pointers[at + 4 * count] = (const char *)p.weights + 2 * rows;
    p.pointers[at + 5 * count] = (const char *)p.o + 2 * (b * p.o_batch + h * p.o_head);
}

__device__ float warp_max(float x) {
    for (int mask = 16; mask > 0; mask /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, mask));
    return x;
}

__device__ float warp_sum(float x) {
    for (int mask = 16; mask > 0; mask /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, mask);
    return x;
}

__device__ void store(void *base, long long at, bool bf16, float x) {
    if (bf16)
        ((__nv_bfloat16 *)base)[at] = __float2bfloat16(x);
    else
        ((__half *)base)[at] = __float2half(x);
}

extern "C" __global__ void peer_cublas_softmax(const __grid_constant__ peer_cublas_params p) {
    const long long row = (long long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32, head = (int)(row / p.seq_q), i = (int)(row % p.seq_q);
    if (head >= p.batch * p.heads_q)
        return;
    const int seen = p.causal ? min(p.seq_k, max(0, i + p.shift + 1)) : p.seq_k;
    const float *score = p.scores + row * p.pitch;
    float top = -INFINITY, sum = 0.0f;
    for (int j = lane; j < seen; j += 32)
        top = fmaxf(top, score[j]);
    top = warp_max(top);
    for (int j = lane; j < seen; j += 32)
        sum += expf(score[j] - top);
    sum = warp_sum(sum);
    const float inverse = seen > 0 ? 1.0f / sum : 0.0f;
    for (int j = lane; j < p.pitch; j += 32)
        store(p.weights, row * p.pitch + j, p.bf16, j < seen ? expf(score[j] - top) * inverse : 0.0f);
    if (p.lse && lane == 0)
        p.lse[head / p.heads_q * p.lse_batch + head % p.heads_q * p.lse_head + i * p.lse_row] =
            seen > 0 ? top + logf(sum) : -INFINITY;
}
