/* second_look.cuh: recomputes one row in float64 with exact masking, using the 32 lanes of a
 * warp.
 *
 * It is for rows that overflowed float32, or that a tile could not compute: a product of finite
 * numbers outside the range of float32, or a NaN or an infinity in a V row that other rows of
 * the tile see and this one does not (its weight is 0, and 0 * NaN is NaN). Such rows are rare.
 * Testing every element on the fast path would slow down all the others. */
#ifndef ATT_SECOND_LOOK_CUH
#define ATT_SECOND_LOOK_CUH

#include "kernels/fwd_scores.cuh"

enum { SECOND_LOOK_COLUMNS = 8 /* columns of O per lane: head dimensions up to 256 */ };

/* Finite: float32 arithmetic on finite numbers did not overflow. */
DEVICE bool is_finite(float x) {
    return fabsf(x) < INFINITE;
}

/* 1/x if float32 can hold both: the float32 reciprocal and two Newton steps. The compiler's
 * division is a call, around which registers would be spilled. */
DEVICE double exact_reciprocal(double x) {
    double y = (double)__frcp_rn((float)x);
    y = y * (2.0 - x * y);
    return y * (2.0 - x * y);
}

/* tanh(x), to 1e-15 absolute. */
DEVICE double exact_tanh(double x) {
    const double e = exp(-2.0 * fabs(x));
    return copysign((1.0 - e) * exact_reciprocal(1.0 + e), x);
}

/* The logit of key j. Returns false if the bias or the page table hides the key. */
DEVICE bool exact_logit(const att_fwd_params *p, const sequence *s, int head, int i, int j, double *logit) {
    const float bias = bias_at(p, s, head, i, j);
    const long long k = key_offset(p, s, &p->k_stride, head / p->group, j);
    if (bias == -INFINITE || k < 0)
        return false;
    const long long q = query_offset(p, s, &p->q_stride, head, i);
    double t = 0.0;
#pragma unroll 1
    for (int c = 0; c < p->d_qk; c++)
        t += (double)load_as_float(p->q, q + c, p->dtype) * (double)load_as_float(p->k, k + c, p->dtype);
    t *= (double)p->scale;
    if (p->softcap > 0.0f)
        t = (double)p->softcap * exact_tanh(t * exact_reciprocal((double)p->softcap));
    t -= (double)slope_of(p, s->batch, head) * fabs((double)i + s->shift - j);
    *logit = t + (double)bias;
    return true;
}

/* Recompute row i of query head `head` and write O and LSE. Every lane of the warp must call
 * this with the same arguments. It may be inlined, so a kernel calls it in one place. Loops are
 * not unrolled, since this code almost never runs. */
static __device__ __noinline__ void second_look(const att_fwd_params *p, int batch, int head, int i) {
    __syncwarp(); /* orders the lanes' earlier writes of this row before these */
    const sequence s = sequence_of(p, batch);
    const int lane = threadIdx.x % 32;
    const int lo = visible_lo(p, &s, i), hi = visible_hi(p, &s, i);
    const double sink = p->sinks ? (double)p->sinks[head] : -(double)INFINITE;

    double top = sink;
#pragma unroll 1
    for (int j = lo + lane; j < hi; j += 32) {
        double t;
        if (exact_logit(p, &s, head, i, j, &t))
            top = fmax(top, t);
    }
    for (int mask = 16; mask > 0; mask /= 2)
        top = fmax(top, __shfl_xor_sync(0xffffffffu, top, mask));
    const double base = top == -(double)INFINITE ? 0.0 : top;

    double o[SECOND_LOOK_COLUMNS] = {0.0}, sum = 0.0;
    for (int first = lo; first < hi; first += 32) {
        /* Each lane weighs one key. Then all lanes add each key's V, every 32nd column per
         * lane. */
        double t, weight = 0.0;
        long long v = -1;
        if (first + lane < hi && exact_logit(p, &s, head, i, first + lane, &t)) {
            weight = exp(t - base);
            v = key_offset(p, &s, &p->v_stride, head / p->group, first + lane);
        }
        sum += weight;
#pragma unroll 1
        for (int from = 0; from < 32; from++) {
            const double w = __shfl_sync(0xffffffffu, weight, from);
            const long long at = __shfl_sync(0xffffffffu, v, from);
            if (at < 0)
                continue;
#pragma unroll
            for (int n = 0; n < SECOND_LOOK_COLUMNS; n++)
                if (lane + 32 * n < p->d_v)
                    o[n] += w * (double)load_as_float(p->v, at + lane + 32 * n, p->dtype);
        }
    }
    for (int mask = 16; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (p->sinks)
        sum += exp(sink - base);

    /* The heaviest key or the sink has weight 1, so a nonzero sum is at least 1. */
    const double inverse = exact_reciprocal(sum);
    const long long out = query_offset(p, &s, &p->o_stride, head, i);
#pragma unroll
    for (int n = 0; n < SECOND_LOOK_COLUMNS; n++)
        if (lane + 32 * n < p->d_v)
            store_from_float(p->o, out + lane + 32 * n, p->dtype_o, sum == 0.0 ? 0.0f : (float)(o[n] * inverse));
    if (p->lse && lane == 0)
        p->lse[query_offset(p, &s, &p->lse_stride, head, i)] = (float)(base + log(sum));
}

#endif
