/* probe.cu: the smallest kernel that shows that the right code ran on the right data in the right order. */
#include "probe_params.h"

#ifndef FACTOR
#define FACTOR 2
#endif

extern __shared__ float words[];

extern "C" __global__ void KERNEL(const probe_params p) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    for (int i = (int)threadIdx.x; i < p.shared_words; i += (int)blockDim.x)
        words[i] = (float)i;
    __syncthreads();
    float wrong = 0;
    for (int i = (int)threadIdx.x; i < p.shared_words; i += (int)blockDim.x)
        wrong += words[p.shared_words - 1 - i] != (float)(p.shared_words - 1 - i);
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < p.count)
        p.out[i] = p.in[i] * FACTOR + p.add + wrong;
}
