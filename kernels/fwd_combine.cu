/* fwd_combine.cu: the parts of rows whose keys were split become rows
 * COMPUTES O = sum_s 2^(lse_s - lse) O_s, lse = log2 sum_s 2^lse_s, and the sink's weight; one warp a row
 * TILE     WARPS rows a block; a lane holds every 32nd column
 * FLOW     starts while the kernel that made the parts still ends, then waits for it
 * NUMERICS float32, parts in order: the same bits every time; a row that is not finite is redone in float64
 * LIMITS   d_v <= D_V */
#include "kernels/second_look.cuh"

#define COLUMNS (D_V / 32) /* of O a lane */

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
    KERNEL(const __grid_constant__ att_fwd_params params) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    const att_fwd_params *p = &params;
    const int lane = threadIdx.x % 32;
    const long long rows = (long long)p->batch * p->heads_q * p->seq_q;
    const long long row = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows)
        return;
    const int i = (int)(row % p->seq_q), head = (int)(row / p->seq_q % p->heads_q);
    const int batch = (int)(row / p->seq_q / p->heads_q);
    const sequence s = sequence_of(p, batch);
    if (i >= s.len_q)
        return;

    float top = -INFINITE;
    bool sound = true;
    for (int split = lane; split < p->splits; split += 32) {
        const float lse = p->partial_lse[split * rows + row];
        sound = sound && lse == lse;
        top = fmaxf(top, lse);
    }
    sound = __all_sync(0xffffffffu, sound);
    for (int step = 16; step > 0; step /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
    const float base = top == -INFINITE ? 0.0f : top;

    float sum = 0.0f, o[COLUMNS] = {0.0f};
    for (int split = 0; split < p->splits; split++) {
        const float weight = exp2_fast(p->partial_lse[split * rows + row] - base);
        const float *part = p->partial_o + (split * rows + row) * p->d_v;
        sum += weight;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            if (lane + 32 * c < p->d_v)
                o[c] += weight * part[lane + 32 * c];
    }

    float lse = sum > 0.0f ? base + log2_fast(sum) : -INFINITE;
    const float scale = (sum > 0.0f ? 1.0f / sum : 0.0f) * add_sink(p, head, &lse);
    const long long out = query_offset(p, &s, &p->o_stride, head, i);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
        if (lane + 32 * c < p->d_v) {
            sound = sound && fabsf(o[c] * scale) < INFINITE;
            store_from_float(p->o, out + lane + 32 * c, p->dtype_o, o[c] * scale);
        }
    if (p->lse && lane == 0)
        p->lse[query_offset(p, &s, &p->lse_stride, head, i)] = lse * LN_2;
    const bool lost = sum == 0.0f && visible_hi(p, &s, i) > visible_lo(p, &s, i);
    if (__any_sync(0xffffffffu, !sound || lost))
        second_look(p, batch, head, i);
}
