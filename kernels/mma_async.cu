/* mma_async.cu: forward attention on the tensor cores, with copies in flight while they compute
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; one block per (batch, head, TILE_M rows),
 *          online softmax
 * TILE     TILE_M 64 x TILE_N 64 x D 64 or 128, STAGES K/V tiles in flight
 * THREADS  128 = 4 warps of 16 rows each; Q stays in registers
 * SMEM     dynamic: Q | K x STAGES | V x STAGES, swizzled: 40,960 B at D 64, 81,920 B at D 128;
 *          O reuses Q
 * FLOW     copy    K0V0  K1V1       K2V2
 *          tensor        S0   P0V0  S1   P1V1
 *          alu             softmax0   softmax1
 * NUMERICS float32 S, m, l, O; P rounded before PV; a row that is not finite is recomputed in
 *          float64
 * LIMITS   fp16 or bf16, O of the same type; d_qk and d_v multiples of 8, up to D; rows at
 *          multiples of 16 bytes; causal, window, lengths, GQA, LSE; no softcap, ALiBi, bias,
 *          sinks or pages
 * MEASURED 12.7 us at b2h8s512d64,fp16 on NVIDIA H200: evidence/h200/ladder.json
 * WHY      the tile and the arithmetic of mma.cu, with another way of moving data. cp.async
 *          writes to shared memory without passing through registers and is waited for one tile
 *          later, at the only barrier of the loop. ldmatrix loads four 8 x 8 matrices at once
 *          and transposes V on the way; the swizzle keeps its eight rows in different banks
 *          without padding */
#include "kernels/async_copy.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mma.cuh"
#include "kernels/reduce.cuh"
#include "kernels/second_look.cuh"
#include "kernels/swizzle.cuh"
#include "kernels/vector.cuh"

enum {
    THREADS = 32 * WARPS,
    PITCH_K = SWIZZLE_PITCH(D_QK), /* bytes */
    PITCH_V = SWIZZLE_PITCH(D_V),
    CHUNKS_K = PITCH_K / 16, /* per row, 16 bytes each */
    CHUNKS_V = PITCH_V / 16,
    STEPS_QK = D_QK / 16, /* of an mma along d */
    STEPS_PV = TILE_N / 16,
    TILES_S = TILE_N / 8, /* of an mma across the keys */
    TILES_O = D_V / 8,
    AT_Q = 0, /* bytes into shared memory */
    AT_K = AT_Q + TILE_M * PITCH_K,
    AT_V = AT_K + STAGES * TILE_N * PITCH_K
};
static_assert(TILE_M == 16 * WARPS && TILE_N % 16 == 0 && D_QK % 16 == 0 && D_V % 16 == 0, "tiles are whole mma steps");
CHECK_SHARED(AT_V + STAGES * TILE_N * PITCH_V);
static_assert(PITCH_V <= PITCH_K, "O takes the place of Q");
static_assert(STAGES >= 2, "a tile is copied while another is used");

extern __shared__ __align__(128) unsigned char shared_memory[];

/* Start copies of `rows` rows of a matrix into the tile at `tile`. Rows from `limit` on and
 * columns from d on become zero. */
DEVICE void copy_rows(unsigned tile, int rows, int chunks, const half_bits *base, long long stride, int first, int limit,
                      int d) {
#pragma unroll
    for (int at = threadIdx.x; at < rows * chunks; at += THREADS) {
        const int row = at / chunks, chunk = at % chunks;
        const bool inside = first + row < limit && 8 * chunk < d;
        async_copy_16(tile + swizzled(row, chunk, 16 * chunks),
                      inside ? base + (first + row) * stride + 8 * chunk : base, inside ? 16 : 0);
    }
}

/* Load Q of this warp. A negative scale is moved into Q, so that the largest score has the
 * largest weight. */
DEVICE void load_q(unsigned tile, int lane, unsigned flip, unsigned q[STEPS_QK][4]) {
#pragma unroll
    for (int step = 0; step < STEPS_QK; step++) {
        ldmatrix_x4(q[step], tile + swizzled(lane % 16, 2 * step + lane / 16, PITCH_K));
        for (int n = 0; n < 4; n++)
            q[step][n] ^= flip;
    }
}

/* Lanes 0-7 give ldmatrix the addresses of keys 0-7 at the first eight columns of a step, lanes
 * 8-15 at the next eight columns, lanes 16-31 the same for keys 8-15: the right operands of two
 * products. */
DEVICE void score(const unsigned q[STEPS_QK][4], unsigned tile, int lane, float scores[TILES_S][4]) {
#pragma unroll
    for (int n = 0; n < TILES_S; n++)
        scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0.0f;
#pragma unroll
    for (int step = 0; step < STEPS_QK; step++)
#pragma unroll
        for (int n = 0; n < TILES_S; n += 2) {
            unsigned k[4];
            ldmatrix_x4(k, tile + swizzled(8 * n + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2, PITCH_K));
            mma_16x8x16(scores[n], q[step], k[0], k[1]);
            mma_16x8x16(scores[n + 1], q[step], k[2], k[3]);
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

/* The result of the first product has the layout of the second one's left operand. */
DEVICE void accumulate(const float weights[TILES_S][4], unsigned tile, int lane, float o[TILES_O][4]) {
#pragma unroll
    for (int step = 0; step < STEPS_PV; step++) {
        const float *left = weights[2 * step], *right = weights[2 * step + 1];
        const unsigned a[4] = {pack_16(DTYPE, left[0], left[1]), pack_16(DTYPE, left[2], left[3]),
                               pack_16(DTYPE, right[0], right[1]), pack_16(DTYPE, right[2], right[3])};
#pragma unroll
        for (int n = 0; n < TILES_O; n += 2) {
            unsigned v[4];
            ldmatrix_x4_trans(v, tile + swizzled(16 * step + lane % 16, n + lane / 16, PITCH_V));
            mma_16x8x16(o[n], a, v[0], v[1]);
            mma_16x8x16(o[n + 1], a, v[2], v[3]);
        }
    }
}

/* Store O of this warp through shared memory, so that rows are stored 16 bytes at a time. */
DEVICE void store(const att_fwd_params *p, const sequence *s, int head, int first, unsigned char *tile, int lane,
                  const float o[TILES_O][4], const float inverse[2]) {
#pragma unroll
    for (int n = 0; n < TILES_O; n++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            *(unsigned *)(tile + swizzled(lane / 4 + 8 * r, n, PITCH_V) + lane % 4 * 4) =
                pack_16(DTYPE, o[n][2 * r] * inverse[r], o[n][2 * r + 1] * inverse[r]);
    __syncwarp();
#pragma unroll
    for (int at = lane; at < 16 * CHUNKS_V; at += 32) {
        const int row = at / CHUNKS_V, chunk = at % CHUNKS_V;
        if (first + row < s->len_q && 8 * chunk < p->d_v)
            store_16((half_bits *)p->o + query_offset(p, s, &p->o_stride, head, first + row) + 8 * chunk,
                     *(const uint4 *)(tile + swizzled(row, chunk, PITCH_V)));
    }
}

/* Store the LSE of row i. Returns false if the row overflowed float32. */
DEVICE bool finish_row(const att_fwd_params *p, const sequence *s, int head, int i, int lane, const float o[TILES_O][4],
                       int x, float top, float sum) {
    if (i >= s->len_q)
        return true;
    if (p->lse && lane % 4 == 0)
        p->lse[query_offset(p, s, &p->lse_stride, head, i)] =
            sum == 0.0f ? -INFINITE : fabsf(p->scale) * top + logf(sum);
    bool sound = is_finite(sum) && (sum > 0.0f || visible_hi(p, s, i) <= visible_lo(p, s, i));
#pragma unroll
    for (int n = 0; n < TILES_O; n++)
        sound = sound && is_finite(o[n][x]) && is_finite(o[n][x + 1]);
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
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int mine = first + 16 * warp, i = mine + lane / 4;
    const int begin = visible_lo(&p, &s, first) / TILE_N * TILE_N, end = visible_hi(&p, &s, last);
    /* Every row of the block sees all of [all_lo, all_hi). */
    const int all_lo = visible_lo(&p, &s, last), all_hi = visible_hi(&p, &s, first);
    /* Never 0: hidden scores are -inf and must stay so. */
    const float factor = fmaxf(fabsf(p.scale) * LOG2_E, 1e-37f);

    const unsigned shared = shared_address(shared_memory);
    const half_bits *k = (const half_bits *)p.k + key_offset(&p, &s, &p.k_stride, head_kv, 0);
    const half_bits *v = (const half_bits *)p.v + key_offset(&p, &s, &p.v_stride, head_kv, 0);
    copy_rows(shared + AT_Q, TILE_M, CHUNKS_K, (const half_bits *)p.q + query_offset(&p, &s, &p.q_stride, head, 0),
              p.q_stride.row, first, s.len_q, p.d_qk);
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) {
        const int j = begin + stage * TILE_N;
        if (j < end) {
            copy_rows(shared + AT_K + stage * TILE_N * PITCH_K, TILE_N, CHUNKS_K, k, p.k_stride.row, j, s.len_k, p.d_qk);
            copy_rows(shared + AT_V + stage * TILE_N * PITCH_V, TILE_N, CHUNKS_V, v, p.v_stride.row, j, s.len_k, p.d_v);
        }
        async_commit();
    }

    unsigned q[STEPS_QK][4];
    float top[2] = {-INFINITE, -INFINITE}, sum[2] = {0.0f, 0.0f}, o[TILES_O][4] = {};
    int stage = 0;
    for (int j = begin; j < end; j += TILE_N) {
        ASYNC_WAIT(STAGES - 2); /* this thread's share of the tile has landed */
        __syncthreads();        /* so has everyone's, and the tile before it has been used: its place is free */
        const int ahead = j + (STAGES - 1) * TILE_N, into = stage == 0 ? STAGES - 1 : stage - 1;
        if (ahead < end) {
            copy_rows(shared + AT_K + into * TILE_N * PITCH_K, TILE_N, CHUNKS_K, k, p.k_stride.row, ahead, s.len_k, p.d_qk);
            copy_rows(shared + AT_V + into * TILE_N * PITCH_V, TILE_N, CHUNKS_V, v, p.v_stride.row, ahead, s.len_k, p.d_v);
        }
        async_commit(); /* a group a tile, even an empty one: the wait above counts them */
        if (j == begin)
            load_q(shared + AT_Q + warp * 16 * PITCH_K, lane, p.scale < 0.0f ? 0x80008000u : 0, q);

        float scores[TILES_S][4];
        score(q, shared + AT_K + stage * TILE_N * PITCH_K, lane, scores);
        if (j < all_lo || j + TILE_N > all_hi)
            hide(&p, &s, i, j + lane % 4 * 2, scores);
        softmax_step(factor, scores, top, sum, o);
        accumulate(scores, shared + AT_V + stage * TILE_N * PITCH_V, lane, o);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    ASYNC_WAIT(0);
    __syncthreads(); /* nothing lands in Q's place any more, where O goes */

    sum[0] = quad_sum(sum[0]);
    sum[1] = quad_sum(sum[1]);
    const float inverse[2] = {sum[0] == 0.0f ? 0.0f : 1.0f / sum[0], sum[1] == 0.0f ? 0.0f : 1.0f / sum[1]};
    const bool upper = finish_row(&p, &s, head, i, lane, o, 0, top[0], sum[0]);
    const bool lower = finish_row(&p, &s, head, i + 8, lane, o, 2, top[1], sum[1]);
    store(&p, &s, head, mine, shared_memory + AT_Q + warp * 16 * PITCH_K, lane, o, inverse);
    const unsigned again[2] = {__ballot_sync(0xffffffffu, !upper), __ballot_sync(0xffffffffu, !lower)};
#pragma unroll 1
    for (int n = 0; n < 16; n++)
        if ((n < 8 ? again[0] : again[1]) >> n % 8 * 4 & 15)
            second_look(&p, s.batch, head, mine + n);
}
