/* vector.cu: forward attention with 16-byte accesses, tiles in registers and reductions by
 * shuffles
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; one block per (batch, head, TILE_M rows),
 *          online softmax
 * TILE     TILE_M 64 x TILE_N 64 (D 64) or 32 (D 128), as float32
 * THREADS  256: sixteen lanes share four rows; each has 4 rows x TILE_N / 16 keys of S and 4
 *          rows x D / 16 columns of O
 * SMEM     dynamic: Q TILE_M x (D+4) | K TILE_N x (D+4) | V TILE_N x D | weights TILE_M x
 *          (TILE_N+4), floats: 68,608 B at D 64, 76,288 B at D 128
 * FLOW     load K V | S in registers | max, sum by shuffles | weights | O += w V in registers |
 *          next tile
 * NUMERICS float32 throughout; a row that is not finite is recomputed in float64
 * LIMITS   any dtype, O of the same type; d_qk and d_v multiples of 8, up to D; rows at
 *          multiples of 16 bytes; causal, window, lengths, GQA, LSE; no softcap, ALiBi, bias,
 *          sinks or pages
 * MEASURED 51.3 us at b2h8s512d64,fp16 on NVIDIA H200: evidence/h200/ladder.json
 * WHY      eight 16-byte loads from shared memory feed 64 multiply-adds, and a block has two
 *          barriers per tile. The multiply-adds still use the float32 pipe, at a small fraction
 *          of the tensor cores' rate, and nothing overlaps with the loads of a tile */
#include "kernels/reduce.cuh"
#include "kernels/second_look.cuh"
#include "kernels/vector.cuh"

enum {
    THREADS = 32 * WARPS,
    LANES = 16,               /* lanes that share rows */
    ROWS = 4,                 /* per thread */
    KEYS = TILE_N / LANES,    /* per tile and thread: lane, lane + 16, ... */
    STRIPS = D_V / (4 * LANES), /* of four columns of O, per thread */
    PITCH = D_QK + 4,         /* of Q and K: 8 rows of a 16-byte column use all banks */
    PITCH_W = TILE_N + 4
};
static_assert(THREADS == LANES * TILE_M / ROWS && TILE_N % LANES == 0 && D_V % (4 * LANES) == 0 && D_QK % 8 == 0,
              "threads share out the tile evenly");
CHECK_SHARED(4 * (TILE_M * (PITCH + PITCH_W) + TILE_N * (PITCH + D_V)));

extern __shared__ float4 shared_memory[];

typedef struct tiles {
    float *q, *k, *v, *weights;
} tiles;

DEVICE tiles tiles_of(void) {
    tiles t;
    t.q = (float *)shared_memory;
    t.k = t.q + TILE_M * PITCH;
    t.v = t.k + TILE_N * PITCH;
    t.weights = t.v + TILE_N * D_V;
    return t;
}

/* Eight elements from `base[at]`, two 16-byte loads for float32 and one for the others. */
DEVICE void load_8(float4 x[2], const void *base, long long at, int type) {
    if (type == F32) {
        x[0] = __ldg((const float4 *)((const float *)base + at));
        x[1] = __ldg((const float4 *)((const float *)base + at) + 1);
        return;
    }
    const uint4 packed = load_16((const half_bits *)base + at);
    const unsigned word[4] = {packed.x, packed.y, packed.z, packed.w};
    float y[8];
#pragma unroll
    for (int n = 0; n < 4; n++) {
        const half_bits lo = (half_bits)(word[n] & 0xffffu), hi = (half_bits)(word[n] >> 16);
        y[2 * n] = type == BF16 ? bf16_to_float(lo) : f16_to_float(lo);
        y[2 * n + 1] = type == BF16 ? bf16_to_float(hi) : f16_to_float(hi);
    }
    x[0] = make_float4(y[0], y[1], y[2], y[3]);
    x[1] = make_float4(y[4], y[5], y[6], y[7]);
}

/* Four elements to `base[at]` in one store. */
DEVICE void store_4(void *base, long long at, int type, const float x[4]) {
    if (type == F32) {
        *(float4 *)((float *)base + at) = make_float4(x[0], x[1], x[2], x[3]);
        return;
    }
    uint2 packed;
    packed.x = type == BF16 ? pack_16(BF16, x[0], x[1]) : pack_16(F16, x[0], x[1]);
    packed.y = type == BF16 ? pack_16(BF16, x[2], x[3]) : pack_16(F16, x[2], x[3]);
    *(uint2 *)((half_bits *)base + at) = packed;
}

DEVICE void load_q(const att_fwd_params *p, const sequence *s, float *tile, int head, int first) {
    for (int at = threadIdx.x; at < TILE_M * D_QK / 8; at += THREADS) {
        const int row = at / (D_QK / 8), c = at % (D_QK / 8) * 8;
        float4 x[2] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
        if (first + row < s->len_q && c < p->d_qk)
            load_8(x, p->q, query_offset(p, s, &p->q_stride, head, first + row) + c, p->dtype);
        *(float4 *)(tile + row * PITCH + c) = x[0];
        *(float4 *)(tile + row * PITCH + c + 4) = x[1];
    }
}

/* Load rows of K or V. Rows past the end and columns past d are zero. */
DEVICE void load_rows(const att_fwd_params *p, const sequence *s, const void *base, const att_fwd_strides *stride,
                      int d, int columns, float *tile, int pitch, int head, int first) {
    for (int at = threadIdx.x; at < TILE_N * columns / 8; at += THREADS) {
        const int row = at / (columns / 8), c = at % (columns / 8) * 8;
        float4 x[2] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
        if (first + row < s->len_k && c < d)
            load_8(x, base, key_offset(p, s, stride, head, first + row) + c, p->dtype);
        *(float4 *)(tile + row * pitch + c) = x[0];
        *(float4 *)(tile + row * pitch + c + 4) = x[1];
    }
}

/* Over the lanes that share rows. */
DEVICE float lanes_max(float x) {
    for (int lane = LANES / 2; lane > 0; lane /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
    return x;
}

DEVICE float lanes_sum(float x) {
    for (int lane = LANES / 2; lane > 0; lane /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}

DEVICE void fma_4(float *sum, float4 a, float4 b) {
    *sum += a.x * b.x;
    *sum += a.y * b.y;
    *sum += a.z * b.z;
    *sum += a.w * b.w;
}

/* S of this thread's rows and keys. */
DEVICE void score(const tiles *t, int row, int lane, float scores[ROWS][KEYS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        for (int n = 0; n < KEYS; n++)
            scores[r][n] = 0.0f;
#pragma unroll 4
    for (int c = 0; c < D_QK; c += 4) {
        float4 a[ROWS], b[KEYS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            a[r] = *(const float4 *)(t->q + (row + r) * PITCH + c);
#pragma unroll
        for (int n = 0; n < KEYS; n++)
            b[n] = *(const float4 *)(t->k + (lane + LANES * n) * PITCH + c);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int n = 0; n < KEYS; n++)
                fma_4(&scores[r][n], a[r], b[n]);
    }
}

/* O += weights V. */
DEVICE void accumulate(const tiles *t, int row, int lane, float o[ROWS][STRIPS][4]) {
#pragma unroll 2
    for (int j = 0; j < TILE_N; j += 4) {
        float4 w[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            w[r] = *(const float4 *)(t->weights + (row + r) * PITCH_W + j);
#pragma unroll
        for (int g = 0; g < STRIPS; g++)
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const float4 v = *(const float4 *)(t->v + (j + n) * D_V + 4 * (lane + LANES * g));
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const float x = n == 0 ? w[r].x : n == 1 ? w[r].y : n == 2 ? w[r].z : w[r].w;
                    o[r][g][0] += x * v.x;
                    o[r][g][1] += x * v.y;
                    o[r][g][2] += x * v.z;
                    o[r][g][3] += x * v.w;
                }
            }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL(const __grid_constant__ att_fwd_params p) {
    const int head = (int)(blockIdx.x / p.row_blocks % p.heads_q), head_kv = head / p.group;
    const sequence s = sequence_of(&p, (int)(blockIdx.x / p.row_blocks / p.heads_q));
    const int first = (int)(blockIdx.x % p.row_blocks) * TILE_M;
    if (first >= s.len_q)
        return;
    const tiles t = tiles_of();
    const int row = (int)threadIdx.x / LANES * ROWS, lane = (int)threadIdx.x % LANES;
    const int end = visible_hi(&p, &s, min(first + TILE_M, s.len_q) - 1);

    float top[ROWS], sum[ROWS], o[ROWS][STRIPS][4] = {};
    for (int r = 0; r < ROWS; r++) {
        top[r] = -INFINITE;
        sum[r] = 0.0f;
    }
    load_q(&p, &s, t.q, head, first);
    for (int j0 = visible_lo(&p, &s, first) / TILE_N * TILE_N; j0 < end; j0 += TILE_N) {
        __syncthreads(); /* the last tile has been used */
        load_rows(&p, &s, p.k, &p.k_stride, p.d_qk, D_QK, t.k, PITCH, head_kv, j0);
        load_rows(&p, &s, p.v, &p.v_stride, p.d_v, D_V, t.v, D_V, head_kv, j0);
        __syncthreads();

        float scores[ROWS][KEYS];
        score(&t, row, lane, scores);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int lo = visible_lo(&p, &s, first + row + r) - j0, hi = visible_hi(&p, &s, first + row + r) - j0;
            float most = top[r], part = 0.0f;
#pragma unroll
            for (int n = 0; n < KEYS; n++) {
                const int j = lane + LANES * n;
                scores[r][n] = j >= lo && j < hi ? scores[r][n] * p.scale : -INFINITE;
                most = fmaxf(most, scores[r][n]);
            }
            most = lanes_max(most);
            const float base = most == -INFINITE ? 0.0f : most;
#pragma unroll
            for (int n = 0; n < KEYS; n++) {
                const float weight = expf(scores[r][n] - base);
                t.weights[(row + r) * PITCH_W + lane + LANES * n] = weight;
                part += weight;
            }
            const float keep = expf(top[r] - base);
            sum[r] = sum[r] * keep + lanes_sum(part);
            top[r] = most;
#pragma unroll
            for (int g = 0; g < STRIPS; g++)
                for (int n = 0; n < 4; n++)
                    o[r][g][n] *= keep;
        }
        __syncwarp(); /* a row's weights are written and read by lanes of one warp */
        accumulate(&t, row, lane, o);
    }

    unsigned unsound = 0; /* one bit per row */
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int i = first + row + r;
        const bool inside = i < s.len_q, sees = visible_lo(&p, &s, i) < visible_hi(&p, &s, i);
        const float inverse = sum[r] == 0.0f ? 0.0f : 1.0f / sum[r];
        const long long out = query_offset(&p, &s, &p.o_stride, head, i);
        bool sound = is_finite(sum[r]) && (sum[r] > 0.0f || !sees);
#pragma unroll
        for (int g = 0; g < STRIPS; g++) {
            const int c = 4 * (lane + LANES * g);
            for (int n = 0; n < 4; n++) {
                o[r][g][n] *= inverse;
                sound = sound && is_finite(o[r][g][n]);
            }
            if (inside && c < p.d_v)
                store_4(p.o, out + c, p.dtype, o[r][g]);
        }
        if (p.lse && lane == 0 && inside)
            p.lse[query_offset(&p, &s, &p.lse_stride, head, i)] = top[r] + logf(sum[r]);
        unsound |= (unsigned)(inside && !sound) << r;
    }
#pragma unroll 1
    for (int at = 0; at < ROWS * 32 / LANES; at++) {
        const unsigned again = __ballot_sync(0xffffffffu, unsound >> at % ROWS & 1);
        if (again >> at / ROWS * LANES & 0xffffu)
            second_look(&p, s.batch, head, first + (int)threadIdx.x / 32 * (32 / LANES) * ROWS + at);
    }
}
