/* mma.cu: forward attention on the tensor cores, scores and weights in registers
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; one block per (batch, head, TILE_M rows),
 *          online softmax
 * TILE     TILE_M 64 x TILE_N 64 x D 64 or 128
 * THREADS  128 = 4 warps of 16 rows each; Q stays in registers
 * SMEM     static: K TILE_N x (D+8) | V transposed, D x (TILE_N+8): 18,432 B at D 64, 35,840 B
 *          at D 128
 * FLOW     load K V | S = QK^T | mask | max, weights, sum | O += P V | next tile: nothing
 *          overlaps within a block
 * NUMERICS float32 S, m, l, O; P rounded before PV; a row that is not finite is recomputed in
 *          float64
 * LIMITS   fp16 or bf16, O of the same type; d_qk and d_v multiples of 8, up to D; rows at
 *          multiples of 16 bytes; causal, window, lengths, GQA, LSE; no softcap, ALiBi, bias,
 *          sinks or pages
 * MEASURED 15.1 us at b2h8s512d64,fp16 on NVIDIA H200: evidence/h200/ladder.json
 * WHY      the result of one product has the layout of the next one's left operand, so weights
 *          stay in registers. The right operand needs pairs along the inner dimension: K has
 *          them; V is transposed on its way into shared memory, two keys at a time. The tensor
 *          cores wait for memory at every tile */
#include "kernels/mma.cuh"
#include "kernels/reduce.cuh"
#include "kernels/second_look.cuh"
#include "kernels/vector.cuh"

enum {
    THREADS = 32 * WARPS,
    PITCH_K = D_QK + 8,   /* 16-bit elements: the eight rows read at once use all banks */
    PITCH_V = TILE_N + 8,
    STEPS_QK = D_QK / 16, /* of an mma along d */
    STEPS_PV = TILE_N / 16,
    TILES_S = TILE_N / 8, /* of an mma across the keys */
    TILES_O = D_V / 8,
    CHUNKS_K = TILE_N * D_QK / 8 / THREADS, /* of 16 bytes, per thread */
    CHUNKS_V = TILE_N / 2 * D_V / 8 / THREADS /* pairs of them */
};
static_assert(TILE_M == 16 * WARPS && TILE_N % 32 == 0 && D_QK % 16 == 0 && D_V % 16 == 0, "tiles are whole mma steps");

static __shared__ __align__(16) half_bits k_tile[TILE_N * PITCH_K];
static __shared__ __align__(16) half_bits v_tile[D_V * PITCH_V]; /* v_tile[c][j] */

/* Load Q of this lane: rows `row` and `row` + 8 of the tile. A negative scale is moved into Q,
 * so that the largest score has the largest weight. */
DEVICE void load_q(const att_fwd_params *p, const sequence *s, int head, int i, int pair, unsigned q[STEPS_QK][4]) {
    const unsigned flip = p->scale < 0.0f ? 0x80008000u : 0;
    const half_bits *base = (const half_bits *)p->q;
#pragma unroll
    for (int step = 0; step < STEPS_QK; step++)
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const int row = i + n % 2 * 8, c = 16 * step + n / 2 * 8 + pair;
            q[step][n] = 0;
            if (row < s->len_q && c < p->d_qk)
                q[step][n] =
                    flip ^ *(const unsigned *)(base + query_offset(p, s, &p->q_stride, head, row) + c);
        }
}

/* Eight elements from column c of key j, zero past the last key and past d. */
DEVICE uint4 load_chunk(const half_bits *base, long long stride, int len_k, int d, int j, int c) {
    return j < len_k && c < d ? load_16(base + j * stride + c) : make_uint4(0, 0, 0, 0);
}

/* A thread's share of a tile while it is being loaded. Of V it has eight columns of two keys at
 * a time. 16 lanes go along the keys, where their stores are contiguous, and 2 along the
 * columns, where their loads are. */
typedef struct share {
    uint4 k[CHUNKS_K], v[CHUNKS_V][2];
} share;

DEVICE void pair_of(int n, int *pair, int *c) {
    const int at = threadIdx.x + n * THREADS;
    *pair = at / 2 % 16 + at / 32 % (TILE_N / 32) * 16;
    *c = (at % 2 + at / TILE_N * 2) * 8;
}

/* All loads are issued before the first is waited for. */
DEVICE void load_tile(const att_fwd_params *p, const sequence *s, int head, int first, share *mine) {
    const half_bits *k = (const half_bits *)p->k + key_offset(p, s, &p->k_stride, head, 0);
    const half_bits *v = (const half_bits *)p->v + key_offset(p, s, &p->v_stride, head, 0);
#pragma unroll
    for (int n = 0; n < CHUNKS_K; n++) {
        const int at = threadIdx.x + n * THREADS, j = at / (D_QK / 8), c = at % (D_QK / 8) * 8;
        mine->k[n] = load_chunk(k, p->k_stride.row, s->len_k, p->d_qk, first + j, c);
    }
#pragma unroll
    for (int n = 0; n < CHUNKS_V; n++) {
        int pair, c;
        pair_of(n, &pair, &c);
        mine->v[n][0] = load_chunk(v, p->v_stride.row, s->len_k, p->d_v, first + 2 * pair, c);
        mine->v[n][1] = load_chunk(v, p->v_stride.row, s->len_k, p->d_v, first + 2 * pair + 1, c);
    }
}

/* V is transposed here: eight columns of two keys are eight pairs along the keys. */
DEVICE void keep_tile(const share *mine) {
#pragma unroll
    for (int n = 0; n < CHUNKS_K; n++) {
        const int at = threadIdx.x + n * THREADS, j = at / (D_QK / 8), c = at % (D_QK / 8) * 8;
        *(uint4 *)(k_tile + j * PITCH_K + c) = mine->k[n];
    }
#pragma unroll
    for (int n = 0; n < CHUNKS_V; n++) {
        int pair, c;
        pair_of(n, &pair, &c);
        const uint4 even = mine->v[n][0], odd = mine->v[n][1];
        const unsigned x[4] = {even.x, even.y, even.z, even.w}, y[4] = {odd.x, odd.y, odd.z, odd.w};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            *(unsigned *)(v_tile + (c + 2 * e) * PITCH_V + 2 * pair) = __byte_perm(x[e], y[e], 0x5410);
            *(unsigned *)(v_tile + (c + 2 * e + 1) * PITCH_V + 2 * pair) = __byte_perm(x[e], y[e], 0x7632);
        }
    }
}

/* Steps are the outer loop, so that consecutive products do not depend on each other's sums. */
DEVICE void score(const unsigned q[STEPS_QK][4], int row, int pair, float scores[TILES_S][4]) {
#pragma unroll
    for (int n = 0; n < TILES_S; n++)
        scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0.0f;
#pragma unroll
    for (int step = 0; step < STEPS_QK; step++)
#pragma unroll
        for (int n = 0; n < TILES_S; n++) {
            const half_bits *k = k_tile + (8 * n + row) * PITCH_K + 16 * step + pair;
            mma_16x8x16(scores[n], q[step], *(const unsigned *)k, *(const unsigned *)(k + 8));
        }
}

/* -inf for the keys that rows i and i + 8 do not see. */
DEVICE void hide(const att_fwd_params *p, const sequence *s, int i, int j, float scores[TILES_S][4]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int lo = visible_lo(p, s, i + 8 * r) - j, hi = visible_hi(p, s, i + 8 * r) - j;
#pragma unroll
        for (int n = 0; n < TILES_S; n++)
#pragma unroll
            for (int x = 0; x < 2; x++)
                if (8 * n + x < lo || 8 * n + x >= hi)
                    scores[n][2 * r + x] = -INFINITE;
    }
}

/* Turn scores into weights; sums made with a smaller maximum are scaled down. `sum` is this
 * lane's share. */
DEVICE void softmax_step(float factor, float scores[TILES_S][4], float top[2], float sum[2], float o[TILES_O][4]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float most = top[r];
#pragma unroll
        for (int n = 0; n < TILES_S; n++)
            most = fmaxf(most, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
        most = quad_max(most);
        const float base = most == -INFINITE ? 0.0f : most;
        const float keep = exp2_fast((top[r] - base) * factor);
        top[r] = most;
        sum[r] *= keep;
#pragma unroll
        for (int n = 0; n < TILES_S; n++)
#pragma unroll
            for (int x = 2 * r; x < 2 * r + 2; x++) {
                scores[n][x] = exp2_fast((scores[n][x] - base) * factor);
                sum[r] += scores[n][x];
            }
#pragma unroll
        for (int n = 0; n < TILES_O; n++) {
            o[n][2 * r] *= keep;
            o[n][2 * r + 1] *= keep;
        }
    }
}

DEVICE void accumulate(const float weights[TILES_S][4], int row, int pair, float o[TILES_O][4]) {
#pragma unroll
    for (int step = 0; step < STEPS_PV; step++) {
        const float *left = weights[2 * step], *right = weights[2 * step + 1];
        const unsigned a[4] = {pack_16(DTYPE, left[0], left[1]), pack_16(DTYPE, left[2], left[3]),
                               pack_16(DTYPE, right[0], right[1]), pack_16(DTYPE, right[2], right[3])};
#pragma unroll
        for (int n = 0; n < TILES_O; n++) {
            const half_bits *v = v_tile + (8 * n + row) * PITCH_V + 16 * step + pair;
            mma_16x8x16(o[n], a, *(const unsigned *)v, *(const unsigned *)(v + 8));
        }
    }
}

/* Store row i of O and LSE, from entries x and x + 1 of every tile. Returns false if the row
 * overflowed float32. */
DEVICE bool store(const att_fwd_params *p, const sequence *s, int head, int i, int pair, const float o[TILES_O][4],
                  int x, float top, float sum) {
    if (i >= s->len_q)
        return true;
    bool sound = is_finite(sum) && (sum > 0.0f || visible_hi(p, s, i) <= visible_lo(p, s, i));
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    half_bits *out = (half_bits *)p->o + query_offset(p, s, &p->o_stride, head, i) + pair;
#pragma unroll
    for (int n = 0; n < TILES_O; n++) {
        const float a = o[n][x] * inverse, b = o[n][x + 1] * inverse;
        sound = sound && is_finite(a) && is_finite(b);
        if (8 * n + pair < p->d_v)
            *(unsigned *)(out + 8 * n) = pack_16(DTYPE, a, b);
    }
    if (p->lse && pair == 0)
        p->lse[query_offset(p, s, &p->lse_stride, head, i)] =
            sum == 0.0f ? -INFINITE : fabsf(p->scale) * top + logf(sum);
    return sound;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) KERNEL(const __grid_constant__ att_fwd_params p) {
    const int head = (int)(blockIdx.x / p.row_blocks % p.heads_q), head_kv = head / p.group;
    const sequence s = sequence_of(&p, (int)(blockIdx.x / p.row_blocks / p.heads_q));
    /* With a causal mask, later rows see more keys: they start first. */
    const int first = (p.row_blocks - 1 - (int)(blockIdx.x % p.row_blocks)) * TILE_M;
    if (first >= s.len_q)
        return;
    const int last = min(first + TILE_M, s.len_q) - 1;
    const int warp = (int)threadIdx.x / 32, row = (int)threadIdx.x % 32 / 4, pair = (int)threadIdx.x % 4 * 2;
    const int i = first + 16 * warp + row;
    const int end = visible_hi(&p, &s, last);
    /* Every row of the block sees all of [all_lo, all_hi). */
    const int all_lo = visible_lo(&p, &s, last), all_hi = visible_hi(&p, &s, first);
    /* Never 0: hidden scores are -inf and must stay so. */
    const float factor = fmaxf(fabsf(p.scale) * LOG2_E, 1e-37f);

    unsigned q[STEPS_QK][4];
    float top[2] = {-INFINITE, -INFINITE}, sum[2] = {0.0f, 0.0f}, o[TILES_O][4] = {};
    load_q(&p, &s, head, i, pair, q);
    for (int j = visible_lo(&p, &s, first) / TILE_N * TILE_N; j < end; j += TILE_N) {
        share mine;
        load_tile(&p, &s, head_kv, j, &mine);
        __syncthreads(); /* the last tile has been used */
        keep_tile(&mine);
        __syncthreads();
        float scores[TILES_S][4];
        score(q, row, pair, scores);
        if (j < all_lo || j + TILE_N > all_hi)
            hide(&p, &s, i, j + pair, scores);
        softmax_step(factor, scores, top, sum, o);
        accumulate(scores, row, pair, o);
    }

    const bool upper = store(&p, &s, head, i, pair, o, 0, top[0], quad_sum(sum[0]));
    const bool lower = store(&p, &s, head, i + 8, pair, o, 2, top[1], quad_sum(sum[1]));
    const unsigned again[2] = {__ballot_sync(0xffffffffu, !upper), __ballot_sync(0xffffffffu, !lower)};
#pragma unroll 1
    for (int n = 0; n < 16; n++)
        if ((n < 8 ? again[0] : again[1]) >> n % 8 * 4 & 15)
            second_look(&p, s.batch, head, first + 16 * warp + n);
}
