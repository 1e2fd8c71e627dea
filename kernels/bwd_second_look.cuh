/* bwd_second_look.cuh: recomputes the gradients of one query row or one key in float64 with
 * exact masking, using the 32 lanes of a warp.
 *
 * It is for results that are not finite: products of finite numbers outside the range of
 * float32 or float16, rows whose log-sum is infinite, or a NaN or an infinity in a row of the
 * tile that the key or the query does not see (its weight is 0, and 0 * NaN is NaN). Such
 * results are rare. Testing every element on the fast path would slow down all the others. */
#ifndef ATT_BWD_SECOND_LOOK_CUH
#define ATT_BWD_SECOND_LOOK_CUH

#include "kernels/bwd_rows.cuh"
#include "kernels/second_look.cuh"

/* The weight of key j for query row i, and the gradient of scale * dot(q, k). Returns false if
 * the row does not see the key. The row must be in the key's window. */
DEVICE bool exact_gradient(const att_bwd_params *p, const sequence *s, int head, int i, int j, double *weight,
                           double *grad) {
    const att_fwd_params *f = &p->fwd;
    const float lse = f->lse[query_offset(f, s, &f->lse_stride, head, i)], bias = bias_at(f, s, head, i, j);
    if (fabsf(lse) == INFINITE || bias == -INFINITE)
        return false;
    const long long q = query_offset(f, s, &f->q_stride, head, i), o = query_offset(f, s, &f->o_stride, head, i);
    const long long d_o = query_offset(f, s, &p->d_o_stride, head, i);
    const long long k = key_offset(f, s, &f->k_stride, head / f->group, j),
                    v = key_offset(f, s, &f->v_stride, head / f->group, j);
    double t = 0.0, difference = 0.0, bent = 0.0; /* difference: dot(dO, V) - dot(dO, O) */
#pragma unroll 1
    for (int c = 0; c < f->d_qk; c++)
        t += (double)load_as_float(f->q, q + c, f->dtype) * (double)load_as_float(f->k, k + c, f->dtype);
#pragma unroll 1
    for (int c = 0; c < f->d_v; c++)
        difference += (double)load_as_float(p->d_o, d_o + c, f->dtype_o) *
                      ((double)load_as_float(f->v, v + c, f->dtype) - (double)load_as_float(f->o, o + c, f->dtype_o));
    t *= (double)f->scale;
    if (f->softcap > 0.0f) {
        bent = exact_tanh(t * exact_reciprocal((double)f->softcap));
        t = (double)f->softcap * bent;
    }
    t -= (double)slope_of(f, s->batch, head) * fabs((double)i + s->shift - j);
    *weight = exp(t + (double)bias - (double)lse);
    *grad = *weight * difference * (1.0 - bent * bent) * (double)f->scale;
    return true;
}

/* dQ of row i, columns column0 .. column0 + columns - 1, at most 256. Every lane of the warp
 * must call this with the same arguments. */
static __device__ __noinline__ void look_at_query(const att_bwd_params *p, const sequence *s, int head, int i,
                                                  int column0, int columns) {
    const att_fwd_params *f = &p->fwd;
    const int lane = threadIdx.x % 32, lo = visible_lo(f, s, i), hi = visible_hi(f, s, i);
    double sum[SECOND_LOOK_COLUMNS] = {0.0};
#pragma unroll 1
    for (int first = lo; first < hi; first += 32) {
        /* Each lane takes one key. Then all lanes add each key's K, every 32nd column per
         * lane. */
        double weight, grad = 0.0;
        long long k = -1;
        if (first + lane < hi && exact_gradient(p, s, head, i, first + lane, &weight, &grad))
            k = key_offset(f, s, &f->k_stride, head / f->group, first + lane);
#pragma unroll 1
        for (int from = 0; from < 32; from++) {
            const double g = __shfl_sync(0xffffffffu, grad, from);
            const long long at = __shfl_sync(0xffffffffu, k, from);
            if (at < 0)
                continue;
#pragma unroll
            for (int n = 0; n < SECOND_LOOK_COLUMNS; n++)
                if (lane + 32 * n < columns && column0 + lane + 32 * n < f->d_qk)
                    sum[n] += g * (double)load_as_float(f->k, at + column0 + lane + 32 * n, f->dtype);
        }
    }
    const long long to = query_offset(f, s, &p->d_q_stride, head, i);
#pragma unroll
    for (int n = 0; n < SECOND_LOOK_COLUMNS; n++)
        if (lane + 32 * n < columns && column0 + lane + 32 * n < f->d_qk)
            store_from_float(p->d_q, to + column0 + lane + 32 * n, p->dtype_grad, (float)sum[n]);
}

/* Does a row that sees key j have a NaN log-sum? If so, the key's gradients are all NaN. */
DEVICE bool meets_nan(const att_bwd_params *p, const sequence *s, int head, int j) {
    const att_fwd_params *f = &p->fwd;
    bool found = false;
#pragma unroll 1
    for (int i = first_row_of_key(f, s, j) + threadIdx.x % 32; i < last_row_of_key(f, s, j); i += 32) {
        const float lse = f->lse[query_offset(f, s, &f->lse_stride, head, i)];
        found = found || (lse != lse && bias_at(f, s, head, i, j) != -INFINITE);
    }
    return __any_sync(0xffffffffu, found);
}

/* Columns of dK and dV: the first, and how many, at most 256. */
typedef struct key_columns {
    int dk, dk_count, dv, dv_count;
} key_columns;

/* These columns of dK and dV of key j. Every lane of the warp must call this with the same
 * arguments. */
static __device__ __noinline__ void look_at_columns(const att_bwd_params *p, const sequence *s, int head_kv, int j,
                                                    key_columns own) {
    const att_fwd_params *f = &p->fwd;
    const int lane = threadIdx.x % 32, lo = first_row_of_key(f, s, j), hi = last_row_of_key(f, s, j);
    const int dk_end = min(own.dk + own.dk_count, f->d_qk), dv_end = min(own.dv + own.dv_count, f->d_v);
    double dk[SECOND_LOOK_COLUMNS] = {0.0}, dv[SECOND_LOOK_COLUMNS] = {0.0};
#pragma unroll 1
    for (int head = head_kv * f->group; head < (head_kv + 1) * f->group; head++) {
        if (meets_nan(p, s, head, j))
            return; /* the stored values are already NaN */
#pragma unroll 1
        for (int first = lo; first < hi; first += 32) {
            double weight = 0.0, grad = 0.0;
            const bool seen = first + lane < hi && exact_gradient(p, s, head, first + lane, j, &weight, &grad);
            const unsigned votes = __ballot_sync(0xffffffffu, seen);
#pragma unroll 1
            for (int from = 0; from < 32; from++) {
                const double w = __shfl_sync(0xffffffffu, weight, from), g = __shfl_sync(0xffffffffu, grad, from);
                if (!(votes >> from & 1))
                    continue;
                const long long q = query_offset(f, s, &f->q_stride, head, first + from);
                const long long d_o = query_offset(f, s, &p->d_o_stride, head, first + from);
#pragma unroll
                for (int n = 0; n < SECOND_LOOK_COLUMNS; n++) {
                    const int k = own.dk + lane + 32 * n, v = own.dv + lane + 32 * n;
                    if (k < dk_end)
                        dk[n] += g * (double)load_as_float(f->q, q + k, f->dtype);
                    if (v < dv_end)
                        dv[n] += w * (double)load_as_float(p->d_o, d_o + v, f->dtype_o);
                }
            }
        }
    }
    const long long to_k = key_offset(f, s, &p->d_k_stride, head_kv, j),
                    to_v = key_offset(f, s, &p->d_v_stride, head_kv, j);
#pragma unroll
    for (int n = 0; n < SECOND_LOOK_COLUMNS; n++) {
        const int k = own.dk + lane + 32 * n, v = own.dv + lane + 32 * n;
        if (k < dk_end)
            store_from_float(p->d_k, to_k + k, p->dtype_grad, (float)dk[n]);
        if (v < dv_end)
            store_from_float(p->d_v, to_v + v, p->dtype_grad, (float)dv[n]);
    }
}

/* All columns of dK and dV of key j, whichever are requested. */
DEVICE void look_at_key(const att_bwd_params *p, const sequence *s, int head_kv, int j, bool wants_dk, bool wants_dv) {
    const key_columns all = {0, wants_dk ? p->fwd.d_qk : 0, 0, wants_dv ? p->fwd.d_v : 0};
    look_at_columns(p, s, head_kv, j, all);
}

#endif
