/* fwd_sm80.cu: forward attention on the tensor cores of Ampere, Ada and newer
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; one block per (batch, query head, TILE_M
 *          rows, split of the keys)
 * TILE     TILE_M rows x TILE_N keys, D_QK and D_V padded to 16, STAGES tiles of K and V (2 in
 *          every row of kernels.def)
 * THREADS  32 * WARPS; a warp owns TILE_M / WARPS rows: scores, weights and O stay in its
 *          registers
 * SMEM     Q | K x STAGES | V x STAGES, rows swizzled; O is stored through Q's buffer
 * FLOW     copy    K1 V1 | K2 V2 | ...      one barrier per tile: publishes tile j, frees j - 1
 *          tensor  S0 .. P0V0 | S1 .. P1V1
 *          alu        softmax0 |   softmax1
 * NUMERICS float32 S, top, sum, O; weights rounded to DTYPE before PV; rows that are not finite
 *          are recomputed in float64
 * LIMITS   d_qk <= D_QK, d_v <= D_V. ROLE PLAIN, SMALL: rows at multiples of 16 bytes, no
 *          softcap, ALiBi, bias, sinks or pages, scale > 0, O of type DTYPE. ROLE GENERAL:
 *          everything
 * WHY      tried on an H200 and lost: the next tile's scores before this one's softmax (the
 *          second S takes the registers that hide latency); 32, 48, 96 and 128 keys at 128
 *          rows; three blocks per SM; 16 rows per warp at D = 128; overlapping the next call
 *          (its blocks are placed two to an SM while other SMs idle). docs/benchmarking.md
 *          explains why
 * SWITCHES switches.def: every optimisation can be turned off to measure its effect */
#include "kernels/fwd_block_rows.cuh"
#include "kernels/fwd_softmax.cuh"
#include "kernels/fwd_tile_load.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mma.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/vector.cuh"

/* Q stays in registers instead of being read for every tile of keys. */
#define Q_IN_REGISTERS (USE_Q_REGISTERS && M_TILES * K_STEPS <= 8)
/* With 8 warps per SM, a block may use all registers. */
#define BLOCKS_PER_SM (8 / WARPS)
/* Tiles in flight while one is computed. */
#define AHEAD         (USE_PREFETCH ? STAGES - 1 : 0)

#define QK_PITCH SWIZZLE_PITCH(D_QK)
#define V_PITCH  SWIZZLE_PITCH(D_V)
#define Q_BYTES  (TILE_M * (D_QK > D_V ? QK_PITCH : V_PITCH))
#define K_BYTES  (TILE_N * QK_PITCH)
#define V_BYTES  (TILE_N * V_PITCH)

CHECK_SHARED(Q_BYTES + STAGES * (K_BYTES + V_BYTES));
static_assert(TILE_M % (16 * WARPS) == 0 && TILE_N % 16 == 0, "a warp computes whole 16 x 16 tiles");
static_assert(STAGES >= 1 && 2 * M_TILES <= 32, "a stage to compute from; a bit a row half in `redo`");
static_assert(TILE_M % (THREADS / 8) == 0 && TILE_N % (THREADS / 8) == 0, "rows divide among the threads");

DEVICE void load_q(const att_fwd_params *p, const block_work *w, unsigned tile) {
    const half_bits *q = (const half_bits *)p->q;
    const long long first = query_offset(p, &w->s, &p->q_stride, w->head, w->row0);
    const int valid = w->s.len_q - w->row0;
    if (IS_PLAIN) {
        copy_rows(tile, TILE_M, D_QK, q + first, p->q_stride.row, valid, p->d_qk, threadIdx.x, THREADS);
    } else {
        for (int r = threadIdx.x / 8; r < TILE_M; r += THREADS / 8)
            load_row(tile, D_QK, r, q, r < valid ? first + r * p->q_stride.row : -1, p->d_qk,
                     p->flags & ATT_FWD_VECTOR, threadIdx.x % 8, 8);
    }
}

/* Load tile j of K or V. If rows are evenly spaced, `base` is the row of key 0. */
DEVICE void load_keys(const att_fwd_params *p, const block_work *w, unsigned tile, int d_tile, int d,
                      const void *tensor, const half_bits *base, const att_fwd_strides *stride, int j) {
    const int key0 = j * TILE_N, valid = w->s.len_k - key0;
    if (IS_PLAIN) {
        copy_rows(tile, TILE_N, d_tile, base + key0 * stride->row, stride->row, valid, d, threadIdx.x, THREADS);
    } else {
        for (int r = threadIdx.x / 8; r < TILE_N; r += THREADS / 8) {
            const long long at =
                r < valid ? key_offset(p, &w->s, stride, divide(w->head, &p->by_group), key0 + r) : -1;
            load_row(tile, d_tile, r, (const half_bits *)tensor, at, d, p->flags & ATT_FWD_VECTOR,
                     threadIdx.x % 8, 8);
        }
    }
}

/* The ring of tiles: the slot of the next tile, and that of the previous one, which is free
 * again. */
DEVICE int next_stage(int stage) {
    if (AHEAD == 0)
        return 0;
    return STAGES == 2 ? stage ^ 1 : stage + 1 == STAGES ? 0 : stage + 1;
}

DEVICE int stage_before(int stage) {
    return STAGES == 2 ? stage ^ 1 : stage == 0 ? STAGES - 1 : stage - 1;
}

/* S = Q K^T for the warp's rows and one tile of keys. q_row and k_row are this lane's ldmatrix
 * rows. */
DEVICE void score(float s[M_TILES][N_TILES][4], unsigned q[M_TILES][K_STEPS][4], unsigned q_row,
                  unsigned k_row) {
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[m][n][e] = 0.0f;
#pragma unroll
    for (int k = 0; k < K_STEPS; k++) {
        unsigned a[M_TILES][4];
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
            if (!Q_IN_REGISTERS)
                ldmatrix_x4(a[m], swizzle_step(q_row, k) + m * 16 * QK_PITCH);
#pragma unroll
        for (int n = 0; n < N_TILES; n += 2) {
            unsigned b[4];
            ldmatrix_x4(b, swizzle_step(k_row, k) + n * 8 * QK_PITCH);
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                mma_16x8x16(s[m][n], Q_IN_REGISTERS ? q[m][k] : a[m], b[0], b[1]);
                mma_16x8x16(s[m][n + 1], Q_IN_REGISTERS ? q[m][k] : a[m], b[2], b[3]);
            }
        }
    }
}

/* O += P V. v_row is this lane's ldmatrix row of V. */
DEVICE void accumulate(float o[M_TILES][O_TILES][4], float s[M_TILES][N_TILES][4], unsigned v_row) {
#pragma unroll
    for (int k = 0; k < TILE_N / 16; k++) {
        unsigned a[M_TILES][4];
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            a[m][0] = pack_16(DTYPE, s[m][2 * k][0], s[m][2 * k][1]);
            a[m][1] = pack_16(DTYPE, s[m][2 * k][2], s[m][2 * k][3]);
            a[m][2] = pack_16(DTYPE, s[m][2 * k + 1][0], s[m][2 * k + 1][1]);
            a[m][3] = pack_16(DTYPE, s[m][2 * k + 1][2], s[m][2 * k + 1][3]);
        }
#pragma unroll
        for (int n = 0; n < O_TILES; n += 2) {
            unsigned b[4];
            ldmatrix_x4_trans(b, swizzle_step(v_row, n / 2) + k * 16 * V_PITCH);
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                mma_16x8x16(o[m][n], a[m], b[0], b[1]);
                mma_16x8x16(o[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

DEVICE void load_q_registers(unsigned q[M_TILES][K_STEPS][4], unsigned q_row) {
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
            if (Q_IN_REGISTERS)
                ldmatrix_x4(q[m][k], swizzle_step(q_row, k) + m * 16 * QK_PITCH);
}

/* Update the maxima with the new scores. O and the sums are rescaled where one grew by more
 * than `slack`. */
DEVICE void raise_top(float s[M_TILES][N_TILES][4], float o[M_TILES][O_TILES][4],
                         float top[M_TILES][2], float sum[M_TILES][2], float factor, float slack) {
    float raised[M_TILES][2];
    bool raise = false;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            raised[m][half] = row_max(s[m], N_TILES, half, factor);
            raise = raise || raised[m][half] > top[m][half] + slack;
        }
    if (__any_sync(0xffffffffu, raise)) {
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (!(raised[m][half] > top[m][half] + slack))
                    continue;
                const float shrink = exp2_fast(top[m][half] - raised[m][half]);
                top[m][half] = raised[m][half];
                sum[m][half] *= shrink;
#pragma unroll
                for (int n = 0; n < O_TILES; n++) {
                    o[m][n][2 * half] *= shrink;
                    o[m][n][2 * half + 1] *= shrink;
                }
            }
    }
}

/* Turn scores into weights. */
DEVICE void weigh_all(float s[M_TILES][N_TILES][4], float top[M_TILES][2], float sum[M_TILES][2],
                      float factor) {
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            weigh(s[m], N_TILES, half, factor, top[m][half], &sum[m][half]);
}

/* Store the warp's rows of O through shared memory, in chunks of 16 bytes. */
DEVICE void store_rows(const att_fwd_params *p, const block_work *w, float o[M_TILES][O_TILES][4],
                       char *tile) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    char *mine = tile + warp * WARP_ROWS * V_PITCH;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int n = 0; n < O_TILES; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = m * 16 + half * 8 + lane / 4;
                *(unsigned *)(mine + swizzled(r, n, V_PITCH) + lane % 4 * 4) =
                    pack_16(DTYPE, o[m][n][2 * half], o[m][n][2 * half + 1]);
            }
    __syncwarp();
    half_bits *out = (half_bits *)p->o;
    const int row0 = w->row0 + warp * WARP_ROWS;
#pragma unroll
    for (int i = 0; i < WARP_ROWS / 4; i++) {
        const int r = lane / 8 + 4 * i;
        if (row0 + r >= w->s.len_q)
            continue;
        half_bits *to = out + query_offset(p, &w->s, &p->o_stride, w->head, row0 + r);
#pragma unroll
        for (int chunk = lane % 8; chunk < (D_V + 7) / 8; chunk += 8)
            if (chunk * 8 < p->d_v)
                store_16(to + chunk * 8, *(const uint4 *)(mine + swizzled(r, chunk, V_PITCH)));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    KERNEL(const __grid_constant__ att_fwd_params params) {
    extern __shared__ __align__(128) char shared[];
    const att_fwd_params *p = &params;
    const block_work w = work_of(p);
    if (USE_EARLY_COMBINE && p->splits > 1)
        allow_next_kernel();
    if (w.row0 >= w.s.len_q)
        return;
    const unsigned q_tile = shared_address(shared), k_tile = q_tile + Q_BYTES,
                   v_tile = k_tile + STAGES * K_BYTES;
    const half_bits *k0 = 0, *v0 = 0;
    if (IS_PLAIN) {
        k0 = (const half_bits *)p->k + key_offset(p, &w.s, &p->k_stride, divide(w.head, &p->by_group), 0);
        v0 = (const half_bits *)p->v + key_offset(p, &w.s, &p->v_stride, divide(w.head, &p->by_group), 0);
    }

    load_q(p, &w, q_tile);
#pragma unroll
    for (int t = 0; t < AHEAD || t == 0; t++) { /* once without prefetching: Q's own group */
        if (t < AHEAD && w.first + t < w.last) {
            load_keys(p, &w, k_tile + t * K_BYTES, D_QK, p->d_qk, p->k, k0, &p->k_stride, w.first + t);
            load_keys(p, &w, v_tile + t * V_BYTES, D_V, p->d_v, p->v, v0, &p->v_stride, w.first + t);
        }
        async_commit();
    }

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned q_row = q_tile + swizzled(warp * WARP_ROWS + lane % 16, lane / 16, QK_PITCH);
    const unsigned k_row = k_tile + swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2, QK_PITCH);
    const unsigned v_row = v_tile + swizzled(lane % 16, lane / 16, V_PITCH);

    unsigned q[M_TILES][K_STEPS][4];
    float o[M_TILES][O_TILES][4], top[M_TILES][2], sum[M_TILES][2];
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
        top[m][0] = top[m][1] = -INFINITE;
        sum[m][0] = sum[m][1] = 0.0f;
#pragma unroll
        for (int n = 0; n < O_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[m][n][e] = 0.0f;
    }

    /* In tiles below `clear_from` and from `clear_to` on, keys are hidden from some row. */
    const int clear_from = (visible_lo(p, &w.s, min(w.row0 + TILE_M, w.s.len_q) - 1) + TILE_N - 1) / TILE_N;
    const int clear_to = max(visible_hi(p, &w.s, w.row0), 0) / TILE_N;
    const float factor = IS_PLAIN ? p->scale_log2 : 1.0f;
    const float slack = !USE_LAZY_RESCALE || (!IS_PLAIN && p->dtype_o == F32) ? 0.0f : RAISE_ABOVE;

    int stage = 0;
    for (int j = w.first; j < w.last; j++, stage = next_stage(stage)) {
        if (AHEAD == 0) {
            __syncthreads(); /* the previous tile is no longer in use */
            load_keys(p, &w, k_tile, D_QK, p->d_qk, p->k, k0, &p->k_stride, j);
            load_keys(p, &w, v_tile, D_V, p->d_v, p->v, v0, &p->v_stride, j);
            async_commit();
        }
        ASYNC_WAIT(AHEAD > 1 ? AHEAD - 1 : 0);
        __syncthreads();
        if (j == w.first)
            load_q_registers(q, q_row);
        if (AHEAD > 0) {
            if (j + AHEAD < w.last) {
                const int free = stage_before(stage);
                load_keys(p, &w, k_tile + free * K_BYTES, D_QK, p->d_qk, p->k, k0, &p->k_stride, j + AHEAD);
                load_keys(p, &w, v_tile + free * V_BYTES, D_V, p->d_v, p->v, v0, &p->v_stride, j + AHEAD);
            }
            async_commit();
        }

        float s[M_TILES][N_TILES][4];
        score(s, q, q_row, k_row + stage * K_BYTES);
        if (!IS_PLAIN)
            adjust(p, &w, s, j);
        if (!USE_CLEAR_TILES || j < clear_from || j >= clear_to)
            hide(p, &w, s, j);
        raise_top(s, o, top, sum, factor, slack);
        weigh_all(s, top, sum, factor);
        accumulate(o, s, v_row + stage * V_BYTES);
    }
    ASYNC_WAIT(0);
    __syncthreads(); /* nothing lands in Q's place any more, where O goes: a tile without keys had no barrier yet */

    const unsigned redo = finish(p, &w, o, top, sum, shared);
    if (__any_sync(0xffffffffu, redo))
        redo_rows(p, &w, redo);
}
