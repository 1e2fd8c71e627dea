/* tiled.cu: forward attention with shared memory: each load from memory serves a block of rows
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; one block per (batch, head, TILE_M rows),
 *          online softmax
 * TILE     TILE_M 16 x TILE_N 32 x D up to 128, as float32
 * THREADS  256: sixteen per row, each with two keys of the scores and D / 16 columns of O
 * SMEM     44,288 B = Q 8,256 | K 16,512 | V 16,384 | weights 2,112 | reduction 1,024, static
 * FLOW     load K V | score | max by a tree | weights | sum by a tree | O += w V | next tile
 * NUMERICS float32 throughout; a row that is not finite is recomputed in float64
 * LIMITS   any dtype, d_qk and d_v up to 128; causal, window, lengths, GQA, LSE; no softcap,
 *          ALiBi, bias, sinks or pages
 * MEASURED 392.7 us at b2h8s512d64,fp16 on NVIDIA H200: evidence/h200/ladder.json
 * WHY      every key is read from memory once per 16 rows. Reductions have a barrier in every
 *          step of their tree, and every multiply-add waits for two loads from shared memory */
#include "kernels/second_look.cuh"

enum {
    THREADS = 32 * WARPS,
    LANES = THREADS / TILE_M, /* threads that share a row */
    KEYS = TILE_N / LANES,    /* per tile and thread */
    COLUMNS = D_V / LANES,    /* of O, per thread */
    PITCH = D_QK + 1          /* of Q and K: different rows are in different banks */
};
static_assert(THREADS % TILE_M == 0 && TILE_N % LANES == 0 && D_V % LANES == 0, "threads share out the tile evenly");

static __shared__ float q[TILE_M][PITCH], k[TILE_N][PITCH], v[TILE_N][D_V];
static __shared__ float weights[TILE_M][TILE_N + 1];
static __shared__ float tree[TILE_M][LANES];

/* The maximum or the sum over the threads of each row, returned to all of them. */
DEVICE float row_max(float x, int row, int lane) {
    tree[row][lane] = x;
    for (int half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half)
            tree[row][lane] = fmaxf(tree[row][lane], tree[row][lane + half]);
    }
    __syncthreads();
    x = tree[row][0];
    __syncthreads();
    return x;
}

DEVICE float row_sum(float x, int row, int lane) {
    tree[row][lane] = x;
    for (int half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half)
            tree[row][lane] += tree[row][lane + half];
    }
    __syncthreads();
    x = tree[row][0];
    __syncthreads();
    return x;
}

DEVICE void load_q(const att_fwd_params *p, const sequence *s, int head, int first) {
    for (int at = threadIdx.x; at < TILE_M * D_QK; at += THREADS) {
        const int row = at / D_QK, c = at % D_QK;
        const bool inside = first + row < s->len_q && c < p->d_qk;
        q[row][c] = inside ? load_as_float(p->q, query_offset(p, s, &p->q_stride, head, first + row) + c, p->dtype)
                           : 0.0f;
    }
}

DEVICE void load_kv(const att_fwd_params *p, const sequence *s, int head, int first) {
    for (int at = threadIdx.x; at < TILE_N * D_QK; at += THREADS) {
        const int row = at / D_QK, c = at % D_QK;
        const bool inside = first + row < s->len_k && c < p->d_qk;
        k[row][c] = inside ? load_as_float(p->k, key_offset(p, s, &p->k_stride, head, first + row) + c, p->dtype)
                           : 0.0f;
    }
    for (int at = threadIdx.x; at < TILE_N * D_V; at += THREADS) {
        const int row = at / D_V, c = at % D_V;
        const bool inside = first + row < s->len_k && c < p->d_v;
        v[row][c] = inside ? load_as_float(p->v, key_offset(p, s, &p->v_stride, head, first + row) + c, p->dtype)
                           : 0.0f;
    }
}

/* The scores of this thread's keys; -inf for those that its row does not see. */
DEVICE void score(const att_fwd_params *p, int row, int lane, int lo, int hi, float scores[KEYS]) {
    for (int n = 0; n < KEYS; n++)
        scores[n] = 0.0f;
    for (int c = 0; c < p->d_qk; c++)
#pragma unroll
        for (int n = 0; n < KEYS; n++)
            scores[n] += q[row][c] * k[lane + LANES * n][c];
    for (int n = 0; n < KEYS; n++) {
        const int j = lane + LANES * n;
        scores[n] = j >= lo && j < hi ? scores[n] * p->scale : -INFINITE;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL(const __grid_constant__ att_fwd_params p) {
    const int head = (int)(blockIdx.x / p.row_blocks % p.heads_q), head_kv = head / p.group;
    const sequence s = sequence_of(&p, (int)(blockIdx.x / p.row_blocks / p.heads_q));
    const int first = (int)(blockIdx.x % p.row_blocks) * TILE_M;
    if (first >= s.len_q)
        return;
    const int row = threadIdx.x / LANES, lane = threadIdx.x % LANES, i = first + row;
    const int lo = visible_lo(&p, &s, i), hi = i < s.len_q ? visible_hi(&p, &s, i) : lo;
    const int end = visible_hi(&p, &s, min(first + TILE_M, s.len_q) - 1);

    float top = -INFINITE, sum = 0.0f, o[COLUMNS] = {0.0f};
    load_q(&p, &s, head, first);
    for (int j0 = visible_lo(&p, &s, first) / TILE_N * TILE_N; j0 < end; j0 += TILE_N) {
        __syncthreads(); /* the last tile has been used */
        load_kv(&p, &s, head_kv, j0);
        __syncthreads();

        float scores[KEYS], most = top, part = 0.0f;
        score(&p, row, lane, lo - j0, hi - j0, scores);
        for (int n = 0; n < KEYS; n++)
            most = fmaxf(most, scores[n]);
        most = row_max(most, row, lane);
        const float base = most == -INFINITE ? 0.0f : most;
        for (int n = 0; n < KEYS; n++) {
            const float weight = expf(scores[n] - base);
            weights[row][lane + LANES * n] = weight;
            part += weight;
        }
        const float keep = expf(top - base);
        sum = sum * keep + row_sum(part, row, lane); /* its barriers also publish the weights */
        top = most;

        for (int n = 0; n < COLUMNS; n++)
            o[n] *= keep;
        for (int j = max(lo - j0, 0); j < min(hi - j0, TILE_N); j++)
#pragma unroll
            for (int n = 0; n < COLUMNS; n++)
                o[n] += weights[row][j] * v[j][lane + LANES * n];
    }

    bool sound = is_finite(sum) && (sum > 0.0f || hi <= lo);
    const long long out = query_offset(&p, &s, &p.o_stride, head, i);
#pragma unroll
    for (int n = 0; n < COLUMNS; n++) {
        sound = sound && is_finite(o[n]);
        if (i < s.len_q && lane + LANES * n < p.d_v)
            store_from_float(p.o, out + lane + LANES * n, p.dtype_o, sum == 0.0f ? 0.0f : o[n] / sum);
    }
    if (p.lse && lane == 0 && i < s.len_q)
        p.lse[query_offset(&p, &s, &p.lse_stride, head, i)] = top + logf(sum);

    const unsigned again = __ballot_sync(0xffffffffu, i < s.len_q && !sound);
#pragma unroll 1
    for (int part = 0; part < 32; part += LANES)
        if (again >> part & ((1u << LANES) - 1))
            second_look(&p, s.batch, head, first + ((int)threadIdx.x / 32 * 32 + part) / LANES);
}
