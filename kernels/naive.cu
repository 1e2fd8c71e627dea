/* naive.cu: forward attention straight from the formula, one thread per row
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE with every feature of a problem: the kernel
 *          of last resort
 * TILE     none: a thread walks its row's visible keys twice, for the maximum and for the
 *          weights
 * THREADS  128, each with one row of one (batch, head)
 * SMEM     none
 * REGS     the row of O is in thread-local memory, 1 KB per thread: 256 floats do not fit in a
 *          thread's registers
 * FLOW     max over keys of q.k | l += w, o += w v | o / l
 * NUMERICS float32 S, m, l, O, summed in order; P not rounded; a row that is not finite is
 *          recomputed in float64
 * LIMITS   any dtype, d_qk and d_v up to 256, every mask, feature, stride and alignment; 64-bit
 *          offsets
 * MEASURED 9000.8 us at b2h8s512d64,fp16 on NVIDIA H200: evidence/h200/ladder.json
 * WHY      shows what the others compute. The threads of a warp read distant rows of Q, one
 *          element at a time, and every row reads every key from memory again */
#include "kernels/second_look.cuh"

enum { THREADS = 32 * WARPS };
static_assert(THREADS == TILE_M, "a thread a row");

/* The position of a row. */
typedef struct place {
    int batch, head, i;
} place;

/* The logit of key j. Returns false if the bias or the page table hides the key. */
DEVICE bool logit_of(const att_fwd_params *p, const sequence *s, const place *at, int j, float *logit) {
    const float bias = bias_at(p, s, at->head, at->i, j);
    const long long k = key_offset(p, s, &p->k_stride, at->head / p->group, j);
    if (bias == -INFINITE || k < 0)
        return false;
    const long long q = query_offset(p, s, &p->q_stride, at->head, at->i);
    float t = 0.0f;
    for (int c = 0; c < p->d_qk; c++)
        t += load_as_float(p->q, q + c, p->dtype) * load_as_float(p->k, k + c, p->dtype);
    t *= p->scale;
    if (p->softcap > 0.0f)
        t = p->softcap * tanhf(t / p->softcap);
    if (p->alibi)
        t -= p->alibi[at->batch * p->alibi_batch + at->head] * fabsf((float)(at->i + s->shift - j));
    *logit = t + bias;
    return true;
}

/* Compute one row. Returns false if it overflowed float32. */
DEVICE bool row_of(const att_fwd_params *p, const sequence *s, const place *at) {
    const int lo = visible_lo(p, s, at->i), hi = visible_hi(p, s, at->i);
    const float sink = p->sinks ? p->sinks[at->head] : -INFINITE;
    float top = sink, t;
    for (int j = lo; j < hi; j++)
        if (logit_of(p, s, at, j, &t))
            top = fmaxf(top, t);

    const float base = top == -INFINITE ? 0.0f : top;
    float sum = p->sinks ? expf(sink - base) : 0.0f;
    float o[D_V];
    for (int c = 0; c < p->d_v; c++)
        o[c] = 0.0f;
    for (int j = lo; j < hi; j++) {
        if (!logit_of(p, s, at, j, &t))
            continue;
        const float weight = expf(t - base);
        const long long v = key_offset(p, s, &p->v_stride, at->head / p->group, j);
        sum += weight;
        for (int c = 0; c < p->d_v; c++)
            o[c] += weight * load_as_float(p->v, v + c, p->dtype);
    }

    bool sound = is_finite(sum) && (sum > 0.0f || hi <= lo);
    const long long out = query_offset(p, s, &p->o_stride, at->head, at->i);
    for (int c = 0; c < p->d_v; c++) {
        sound = sound && is_finite(o[c]);
        store_from_float(p->o, out + c, p->dtype_o, sum == 0.0f ? 0.0f : o[c] / sum);
    }
    if (p->lse)
        p->lse[query_offset(p, s, &p->lse_stride, at->head, at->i)] = base + logf(sum);
    return sound;
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) KERNEL(const __grid_constant__ att_fwd_params p) {
    const int block = (int)(blockIdx.x % p.row_blocks), of_batch = (int)(blockIdx.x / p.row_blocks);
    const place at = {of_batch / p.heads_q, of_batch % p.heads_q, block * TILE_M + (int)threadIdx.x};
    const sequence s = sequence_of(&p, at.batch);
    const bool sound = at.i >= s.len_q || row_of(&p, &s, &at);
    for (unsigned again = __ballot_sync(0xffffffffu, !sound); again; again &= again - 1)
        second_look(&p, at.batch, at.head, __shfl_sync(0xffffffffu, at.i, __ffs((int)again) - 1));
}
