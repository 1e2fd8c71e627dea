/* unfused.cu: the steps between the two matrix products of unfused attention: cuBLAS, softmax,
 * cuBLAS
 * COMPUTES with src/attention/cuda/unfused.c: S = QK^T (cuBLAS, float32) | weights =
 *          exp(scale*S + mask - max) | weights V (cuBLAS, float32) | O
 * TILE     none; a warp has one row of S, which it reads twice: for the maximum and for the
 *          weights
 * THREADS  256 = 8 rows
 * SMEM     none
 * FLOW     pointers -> cuBLAS -> softmax -> cuBLAS -> finish, five launches on one stream
 * NUMERICS float32 S, m, l, O; P rounded to the input type before PV; a row that is not finite
 *          is recomputed in float64
 * LIMITS   any dtype, d_qk and d_v up to 256; rows at multiples of 16 bytes, with strides that
 *          cuBLAS accepts; causal, window, GQA, LSE; no lengths, pages, softcap, ALiBi, bias or
 *          sinks. Scratch grows with seq_q * seq_k: per head 4 bytes for S, and the size of the
 *          input type for P
 * MEASURED 31.3 us at b2h8s512d64,fp16 on NVIDIA H200: evidence/h200/ladder.json
 * WHY      the products run at tensor-core speed, in the best library for them. S and P go
 *          through memory four times, and keys hidden by the mask are multiplied all the
 *          same */
#include "kernels/reduce.cuh"
#include "kernels/second_look.cuh"
#include "kernels/unfused_params.h"

enum { THREADS = 32 * WARPS };

DEVICE void point(const att_unfused_params *u) {
    const att_fwd_params *p = &u->fwd;
    const int count = p->batch * p->heads_q, at = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (at >= count)
        return;
    const sequence s = sequence_of(p, at / p->heads_q);
    const int head = at % p->heads_q, size = p->dtype == F32 ? 4 : 2;
    const long long rows = (long long)at * p->seq_q;
    const char *q = (const char *)p->q, *k = (const char *)p->k, *v = (const char *)p->v;
    u->pointers[at] = q + size * query_offset(p, &s, &p->q_stride, head, 0);
    u->pointers[at + count] = k + size * key_offset(p, &s, &p->k_stride, head / p->group, 0);
    u->pointers[at + 2 * count] = u->scores + rows * u->pitch;
    u->pointers[at + 3 * count] = v + size * key_offset(p, &s, &p->v_stride, head / p->group, 0);
    u->pointers[at + 4 * count] = (const char *)u->weights + size * rows * u->pitch;
    u->pointers[at + 5 * count] = u->product + rows * p->d_v;
}

DEVICE void store_weights(void *base, long long at, int type, float4 w) {
    if (type == F32)
        *(float4 *)((float *)base + at) = w;
    else if (type == BF16)
        *(uint2 *)((half_bits *)base + at) = make_uint2(pack_16(BF16, w.x, w.y), pack_16(BF16, w.z, w.w));
    else
        *(uint2 *)((half_bits *)base + at) = make_uint2(pack_16(F16, w.x, w.y), pack_16(F16, w.z, w.w));
}

/* The scaled scores of keys j .. j + 3; -inf for those outside [lo, hi), which are ignored. */
DEVICE float4 scores_at(const float *row, float scale, int j, int lo, int hi) {
    if (j + 4 <= lo || j >= hi)
        return make_float4(-INFINITE, -INFINITE, -INFINITE, -INFINITE);
    const float4 x = *(const float4 *)(row + j);
    return make_float4(j >= lo ? x.x * scale : -INFINITE, j + 1 >= lo && j + 1 < hi ? x.y * scale : -INFINITE,
                       j + 2 >= lo && j + 2 < hi ? x.z * scale : -INFINITE, j + 3 < hi ? x.w * scale : -INFINITE);
}

DEVICE void softmax(const att_unfused_params *u, long long row, int batch, int i, int lane) {
    const att_fwd_params *p = &u->fwd;
    const sequence s = sequence_of(p, batch);
    const int lo = visible_lo(p, &s, i), hi = visible_hi(p, &s, i);
    const float *scores = u->scores + row * u->pitch;
    float top = -INFINITE, sum = 0.0f;
    for (int j = lo / 128 * 128 + 4 * lane; j < hi; j += 128) {
        const float4 x = scores_at(scores, p->scale, j, lo, hi);
        top = fmaxf(top, fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)));
    }
    top = warp_max(top);
    const float base = top == -INFINITE ? 0.0f : top;
    for (int j = 4 * lane; j < u->pitch; j += 128) {
        const float4 x = scores_at(scores, p->scale, j, lo, hi);
        const float4 w = make_float4(expf(x.x - base), expf(x.y - base), expf(x.z - base), expf(x.w - base));
        sum += (w.x + w.y) + (w.z + w.w);
        store_weights(u->weights, row * u->pitch + j, p->dtype, w);
    }
    sum = warp_sum(sum);
    if (lane == 0) {
        u->top[row] = top;
        u->sum[row] = sum;
    }
}

DEVICE void finish(const att_unfused_params *u, long long row, int batch, int head, int i, int lane) {
    const att_fwd_params *p = &u->fwd;
    const sequence s = sequence_of(p, batch);
    const float sum = u->sum[row], inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    const long long out = query_offset(p, &s, &p->o_stride, head, i);
    bool sound = is_finite(sum) && (sum > 0.0f || visible_hi(p, &s, i) <= visible_lo(p, &s, i));
    for (int c = lane; c < p->d_v; c += 32) {
        /* If no key is visible there may have been no product. */
        const float x = sum == 0.0f ? 0.0f : u->product[row * p->d_v + c] * inverse;
        sound = sound && is_finite(x);
        store_from_float(p->o, out + c, p->dtype_o, x);
    }
    if (p->lse && lane == 0)
        p->lse[query_offset(p, &s, &p->lse_stride, head, i)] = u->top[row] + logf(sum);
    if (__any_sync(0xffffffffu, !sound))
        second_look(p, batch, head, i);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) KERNEL(const __grid_constant__ att_unfused_params u) {
    if (u.phase == ATT_UNFUSED_POINTERS) {
        point(&u);
        return;
    }
    const long long row = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    const int of_batch = (int)(row / u.fwd.seq_q), i = (int)(row % u.fwd.seq_q), lane = (int)threadIdx.x % 32;
    if (of_batch >= u.fwd.batch * u.fwd.heads_q)
        return;
    if (u.phase == ATT_UNFUSED_SOFTMAX)
        softmax(&u, row, of_batch / u.fwd.heads_q, i, lane);
    else
        finish(&u, row, of_batch / u.fwd.heads_q, of_batch % u.fwd.heads_q, i, lane);
}
