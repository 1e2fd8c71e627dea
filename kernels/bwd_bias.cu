/* bwd_bias.cu: the gradient of an additive bias
 * COMPUTES d_bias = d_s, summed over the dimensions that the bias is broadcast along. One block
 *          per tile of d_bias; the block goes through everything that is summed into its tile
 * TILE     TILE_M rows x TILE_N keys, D_QK and D_V padded to 16
 * THREADS  32 * WARPS; each warp has 16 keys of the tile and all its rows
 * SMEM     K | V | Q | dO, rows swizzled; the sums of the warps
 * NUMERICS S and dP as in bwd_sm80; float32 sums in a fixed order
 * LIMITS   d_qk <= D_QK, d_v <= D_V; every feature, any alignment
 * WHY      a separate kernel, run only when the gradient is requested. It repeats two products
 *          of bwd_sm80, but bwd_sm80's blocks walk other axes than those of the sums: partial
 *          sums would need a workspace of the size of all scores */
#include "kernels/bwd_rows.cuh"
#include "kernels/bwd_tile_load.cuh"
#include "kernels/fwd_scores.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mma.cuh"

#define BLOCKS_PER_SM 1
#define THREADS  (32 * WARPS)
#define M_TILES  (TILE_M / 8)
#define QK_PITCH SWIZZLE_PITCH(D_QK)
#define V_PITCH  SWIZZLE_PITCH(D_V)
#define V_AT     (TILE_N * QK_PITCH)
#define Q_AT     (V_AT + TILE_N * V_PITCH)
#define DO_AT    (Q_AT + TILE_M * QK_PITCH)
#define SUMS_AT  (DO_AT + TILE_M * V_PITCH)

CHECK_SHARED(SUMS_AT + 4 * WARPS * TILE_M);
static_assert(TILE_N == 16 * WARPS && TILE_M % 16 == 0, "a warp has 16 keys");

/* The part of one dimension of the scores that a block covers: one index, or the whole
 * dimension if d_bias is summed along it. */
typedef struct span {
    int first, end;
} span;

DEVICE span span_of(long long stride, int at, int size) {
    const span all = {0, size}, one = {at, at + 1};
    return stride == 0 ? all : one;
}

DEVICE int parts_of(long long stride, int size) {
    return stride == 0 ? 1 : size;
}

/* x^T = keys times rows, over 16 * `steps` columns; x has keys by rows. */
DEVICE void multiply(float x[M_TILES][4], unsigned key_row, unsigned row, int steps, int pitch) {
#pragma unroll
    for (int n = 0; n < M_TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            x[n][e] = 0.0f;
#pragma unroll
    for (int k = 0; k < steps; k++) {
        unsigned a[4];
        ldmatrix_x4(a, swizzle_step(key_row, k));
#pragma unroll
        for (int n = 0; n < M_TILES; n += 2) {
            unsigned b[4];
            ldmatrix_x4(b, swizzle_step(row, k) + n * 8 * pitch);
            mma_16x8x16(x[n], a, b[0], b[1]);
            mma_16x8x16(x[n + 1], a, b[2], b[3]);
        }
    }
}

/* d_s of one (row, key) pair if the row sees the key, otherwise 0. */
DEVICE float score_gradient(const att_bwd_params *p, const sequence *s, int head, int i, int j, float slope,
                            float product, float dp, const float *terms) {
    const att_fwd_params *f = &p->fwd;
    if (i >= s->len_q || j < visible_lo(f, s, i) || j >= visible_hi(f, s, i))
        return 0.0f;
    const float bias = bias_at(f, s, head, i, j), lse = terms[term_of(i)];
    if (bias == -INFINITE || lse == INFINITE)
        return 0.0f;
    return exp2_fast(score_of(f, s, head, i, j, slope, product) - lse) * (dp - terms[term_of(i) + ATT_BWD_TERM_ROWS]);
}

/* Add the tile of one (batch, head) at row0 and key0 to `sum`. Both count positions in
 * memory. */
DEVICE void add_tile(const att_bwd_params *p, const sequence *s, int head, int row0, int key0, unsigned base,
                     float sum[M_TILES][4]) {
    const att_fwd_params *f = &p->fwd;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, j0 = key0 - s->first_k,
              head_kv = divide(head, &f->by_group);
    const int keys = stored_keys(f, s->batch) - key0, rows = s->len_q - row0;
    const bool vectors = p->flags & ATT_BWD_VECTOR;
    if (rows <= 0 || keys <= 0)
        return;
    __syncthreads(); /* the tiles before are done with */
    load_tile_of(base, TILE_N, D_QK, f->d_qk, f->k, DTYPE, key_offset(f, s, &f->k_stride, head_kv, j0), f->k_stride.row,
                 keys, vectors, THREADS, 0);
    load_tile_of(base + V_AT, TILE_N, D_V, f->d_v, f->v, DTYPE, key_offset(f, s, &f->v_stride, head_kv, j0),
                 f->v_stride.row, keys, vectors, THREADS, 0);
    load_tile_of(base + Q_AT, TILE_M, D_QK, f->d_qk, f->q, DTYPE, query_offset(f, s, &f->q_stride, head, row0),
                 f->q_stride.row, rows, vectors, THREADS, 0);
    load_tile_of(base + DO_AT, TILE_M, D_V, f->d_v, p->d_o, f->dtype_o, query_offset(f, s, &p->d_o_stride, head, row0),
                 p->d_o_stride.row, rows, vectors, THREADS, 0);
    async_commit();
    ASYNC_WAIT(0);
    __syncthreads();
    float x[M_TILES][4], dp[M_TILES][4];
    multiply(x, base + swizzled(warp * 16 + lane % 16, lane / 16, QK_PITCH),
             base + Q_AT + swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2, QK_PITCH), (D_QK + 15) / 16, QK_PITCH);
    multiply(dp, base + V_AT + swizzled(warp * 16 + lane % 16, lane / 16, V_PITCH),
             base + DO_AT + swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2, V_PITCH), (D_V + 15) / 16, V_PITCH);
    const float *terms = terms_of_tile(p, s, head, 0);
    const float slope = slope_of(f, s->batch, head);
#pragma unroll
    for (int n = 0; n < M_TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int i = row0 + n * 8 + lane % 4 * 2 + e % 2, j = j0 + warp * 16 + e / 2 * 8 + lane / 4;
            if (j >= 0 && j < s->len_k)
                sum[n][e] += score_gradient(p, s, head, i, j, slope, x[n][e], dp[n][e], terms);
        }
}

/* Sum along the keys of the block: lanes l, l + 4, ..., then the warps through `sums`.
 * Afterwards every thread has the sums of its rows. */
DEVICE void sum_keys(float sum[M_TILES][4], float *sums) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < M_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float x = sum[n][e] + sum[n][e + 2];
            for (int step = 4; step < 32; step *= 2)
                x += __shfl_xor_sync(0xffffffffu, x, step);
            if (lane / 4 == 0)
                sums[warp * TILE_M + n * 8 + lane % 4 * 2 + e] = x;
        }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < M_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float x = 0.0f;
            for (int w = 0; w < WARPS; w++)
                x += sums[w * TILE_M + n * 8 + lane % 4 * 2 + e];
            sum[n][e] = sum[n][e + 2] = x;
        }
}

/* Sum along the rows. Afterwards every lane of a quad has the sums of its keys, in the first
 * tile. */
DEVICE void sum_rows(float sum[M_TILES][4]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float x = 0.0f;
#pragma unroll
        for (int n = 0; n < M_TILES; n++)
            x += sum[n][2 * half] + sum[n][2 * half + 1];
        x += __shfl_xor_sync(0xffffffffu, x, 1);
        x += __shfl_xor_sync(0xffffffffu, x, 2);
        sum[0][2 * half] = sum[0][2 * half + 1] = x;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    KERNEL(const __grid_constant__ att_bwd_params params) {
    extern __shared__ __align__(128) char shared[];
    const att_bwd_params *p = &params;
    const att_fwd_params *f = &p->fwd;
    const att_fwd_strides *st = &p->d_bias_stride;
    const int row_tiles = (f->seq_q + TILE_M - 1) / TILE_M, key_tiles = (f->seq_k + TILE_N - 1) / TILE_N;
    int rest = blockIdx.x;
    const int key_parts = parts_of(st->col, key_tiles), row_parts = parts_of(st->row, row_tiles),
              head_parts = parts_of(st->head, f->heads_q);
    const int key_part = rest % key_parts, row_part = (rest /= key_parts) % row_parts,
              head_part = (rest /= row_parts) % head_parts;
    const int batch_part = rest / head_parts;
    const span keys = span_of(st->col, key_part, key_tiles), rows = span_of(st->row, row_part, row_tiles);
    const span heads = span_of(st->head, head_part, f->heads_q), batches = span_of(st->batch, batch_part, f->batch);

    float sum[M_TILES][4];
#pragma unroll
    for (int n = 0; n < M_TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[n][e] = 0.0f;
#pragma unroll 1
    for (int b = batches.first; b < batches.end; b++) {
        const sequence s = sequence_of(f, b);
#pragma unroll 1
        for (int h = heads.first; h < heads.end; h++)
#pragma unroll 1
            for (int r = rows.first; r < rows.end; r++)
#pragma unroll 1
                for (int k = keys.first; k < keys.end; k++)
                    add_tile(p, &s, h, r * TILE_M, k * TILE_N, shared_address(shared), sum);
    }
    if (st->col == 0)
        sum_keys(sum, (float *)(shared + SUMS_AT));
    if (st->row == 0)
        sum_rows(sum);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < M_TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int r = n * 8 + lane % 4 * 2 + e % 2, k = warp * 16 + e / 2 * 8 + lane / 4;
            const int i = row_part * TILE_M + r, j = key_part * TILE_N + k;
            if ((st->row == 0 ? r > 0 : i >= f->seq_q) || (st->col == 0 ? k > 0 : j >= f->seq_k))
                continue;
            store_from_float(p->d_bias, batch_part * st->batch + head_part * st->head + i * st->row + j * st->col,
                             p->d_bias_dtype, sum[n][e]);
        }
}
