/* fwd_sm80_f32.cu: forward attention in float32 on the tensor cores of Ampere and newer
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; one block per (batch, query head, TILE_M
 *          rows, split of the keys)
 * TILE     TILE_M rows x TILE_N keys, D_QK and D_V padded to 32; one tile of K and V in flight
 *          while one is computed (STAGES 1)
 * THREADS  32 * WARPS; a warp owns TILE_M / WARPS rows: scores, weights and O stay in its
 *          registers
 * SMEM     copied K | copied V (float32) | K, V in float16 terms, big and small (Q's at first,
 *          if it then goes to registers) | Q in terms, if registers do not hold it | scales
 * FLOW     alu     split K0 | split V0   softmax0 |  split K1 | split V1 ..
 *          copy             | K1 V1               |           | K2 V2 ..
 *          tensor           |       S0            | P0V0      |
 *          Two barriers per tile: one publishes the terms of K, one those of V. A thread splits
 *          what it copied itself, so a copy may begin once the previous one has been split
 * NUMERICS two_terms.cuh: every number is two float16 terms, with three products and float32
 *          sums; scores add up steps of 16 columns. Scales are powers of two: one per row of Q,
 *          one per key, one per tile of V, TERM_BITS for the weights. Sums of P V cover one
 *          tile; O, top and sum are accumulated in float32, rounded to nearest. A tile whose V
 *          rows differ by more than 2^14 in size, and rows that are not finite, are recomputed
 *          in float64, so that a hidden key, however large its V, costs the others no accuracy
 * LIMITS   d_qk <= D_QK, d_v <= D_V. ROLE PLAIN, SMALL: rows at multiples of 16 bytes, no
 *          softcap, ALiBi, bias, sinks or pages, scale > 0, O in float32. ROLE GENERAL:
 *          everything
 * SWITCHES switches.def */
#include "kernels/fwd_block_rows.cuh"
#include "kernels/fwd_float_tiles.cuh"
#include "kernels/fwd_softmax.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mma.cuh"
#include "kernels/programmatic_launch.cuh"

/* Q stays in registers instead of being read for every tile of keys. */
#define Q_IN_REGISTERS (M_TILES * K_STEPS <= 8)
/* Results of 8 columns that are computed side by side: as many as fit without spilling. */
#define GROUP 1
/* With 8 warps per SM, a block may use all registers. */
#define BLOCKS_PER_SM (8 / WARPS)

#define QK_PITCH SWIZZLE_PITCH(D_QK)
#define V_PITCH  SWIZZLE_PITCH(D_V)
/* The terms of one size; those of the other size follow them. */
#define Q_BYTES (TILE_M * QK_PITCH)
#define K_BYTES (TILE_N * QK_PITCH)
#define V_BYTES (TILE_N * V_PITCH)

#define COPIED_BYTES (TILE_N * (D_QK + D_V) * 4)
#define TERMS_BYTES  (2 * (K_BYTES + V_BYTES))
#define Q_AREA_BYTES (2 * Q_BYTES)
#define Q_SHARES     (Q_IN_REGISTERS && Q_AREA_BYTES <= TERMS_BYTES) /* reused by K and V */
#define SCALE_BYTES  ((TILE_M + TILE_N + 2 * WARPS) * 4)
#define WORK_BYTES   64
#define WORK_IN_MEMORY (IS_PLAIN || D_QK >= 128) /* if the loop needs its registers */
#define TILE_BYTES   (COPIED_BYTES + TERMS_BYTES + (Q_SHARES ? 0 : Q_AREA_BYTES))

CHECK_SHARED(TILE_BYTES + SCALE_BYTES + WORK_BYTES);
static_assert(sizeof(block_work) <= WORK_BYTES && SCALE_BYTES % 8 == 0, "the work of the block has its place");
static_assert(TILE_M % (16 * WARPS) == 0 && TILE_N % 16 == 0, "a warp computes whole 16 x 16 tiles");
static_assert(STAGES == 1 && 2 * M_TILES <= 32, "a tile is under way; a bit a row half in `redo`");
static_assert(D_QK % 32 == 0 && D_V % 32 == 0, "eight threads a row, four numbers at a time");
static_assert(WARPS % 2 == 0 && TILE_M % (THREADS / 8) == 0 && TILE_N % (THREADS / 8) == 0, "rows divide among the threads");

/* The maxima are updated when they grow by more than a factor of 2. Weights then stay below 2,
 * and their logarithms, near 0, keep their precision. */
#define FOLLOW_ABOVE 1.0f
/* The largest spread of V row sizes in a tile that one scale can serve, in powers of two. */
#define SPREAD_MOST 14

/* STEPS_AT_ONCE: steps of Q K^T unrolled together, as many as registers hold. */
/* A tensor core aligns its addends, including the running sum, to the largest exponent, and
 * cuts off the bits below. If all products have one sign, this loses up to 2^-21 of a score at
 * every step. Therefore the products of a step are summed separately and added in float32. With
 * two tiles of rows per warp there are no registers for that; there half of the mean loss is
 * added back (CUT_MENDED). */
#define STEPS_ALONE (M_TILES == 1)
/* Tiles of 8 keys whose loads need not wait until the products of the previous tiles have been
 * started: as many as fit without spilling. */
#define LOADED_TOGETHER (WARPS == 8 ? 4 : IS_PLAIN ? 1 : 2)
#define CUT_MENDED  (STEPS_ALONE ? 1.0f : 1.0f + K_STEPS * 0x1p-25f)
enum { STEPS_AT_ONCE = Q_IN_REGISTERS ? K_STEPS : 4 };

/* Rows that a thread splits into terms at once: as many as fit without spilling. */
enum { CUT_AT_ONCE = D_QK <= 64 ? 4 : IS_PLAIN && WARPS == 4 ? 1 : 2 };

/* Shared memory. */
typedef struct block_memory {
    char *copied_k, *copied_v;                  /* float32 */
    char *k, *v, *q;                            /* terms */
    float *row_scale, *key_scale, *value_range; /* of Q rows; of keys; V row range per warp */
    block_work *work;                           /* if WORK_IN_MEMORY */
} block_memory;

DEVICE block_memory memory_of(char *shared) {
    block_memory m;
    m.copied_k = shared;
    m.copied_v = m.copied_k + TILE_N * D_QK * 4;
    m.k = shared + COPIED_BYTES;
    m.v = m.k + 2 * K_BYTES;
    m.q = Q_SHARES ? m.k : m.k + TERMS_BYTES;
    m.row_scale = (float *)(shared + TILE_BYTES);
    m.key_scale = m.row_scale + TILE_M;
    m.value_range = m.key_scale + TILE_N;
    m.work = (block_work *)(m.value_range + 2 * WARPS);
    return m;
}

/* Start the copy of tile j of K or V. */
DEVICE void copy_keys(const att_fwd_params *p, const block_work *w, char *to, int d_tile, int d, const void *tensor,
                      const att_fwd_strides *stride, int j) {
    const float *base = (const float *)tensor;
    const int key0 = j * TILE_N, valid = w->s.len_k - key0, head = divide(w->head, &p->by_group);
    const long long first = IS_PLAIN ? key_offset(p, &w->s, stride, head, key0) : 0;
#pragma unroll
    for (int i = 0; i < TILE_N * 8 / THREADS; i++) {
        const int r = row_in_turn(i, THREADS);
        long long at = -1;
        if (r < valid)
            at = IS_PLAIN ? first + r * stride->row : key_offset(p, &w->s, stride, head, key0 + r);
        copy_pieces(shared_address(to) + r * d_tile * 4, d_tile, base, at, d, IS_PLAIN || p->flags & ATT_FWD_VECTOR);
    }
}

/* Load this thread's pieces of row r of a tile that it copied. Returns their largest absolute
 * value. */
DEVICE float copied_pieces(float4 *x, const char *from, int d_tile, int r) {
    float most = 0.0f;
#pragma unroll
    for (int i = 0; i < PIECES(d_tile); i++) {
        x[i] = *(const float4 *)(from + (r * d_tile + (threadIdx.x % 8 + 8 * i) * 4) * 4);
        most = fmaxf(most, largest_of(x[i]));
    }
    return most;
}

/* The factor that undoes the scale of a row of Q or of a key. */
DEVICE float scale_back(unsigned exponent, int down) {
    return exponent > EXPONENT_MOST ? UNKNOWN : power_of(exponent, down);
}

/* Load Q directly from global memory and split it into terms. */
DEVICE void load_q(const att_fwd_params *p, const block_work *w, const block_memory *m) {
    const float *q = (const float *)p->q;
    const long long first = query_offset(p, &w->s, &p->q_stride, w->head, w->row0);
    const int valid = w->s.len_q - w->row0;
#pragma unroll CUT_AT_ONCE
    for (int i = 0; i < TILE_M * 8 / THREADS; i++) {
        const int r = row_in_turn(i, THREADS);
        float4 x[PIECES(D_QK)];
        float most = 0.0f;
#pragma unroll
        for (int n = 0; n < PIECES(D_QK); n++) {
            const int column = (threadIdx.x % 8 + 8 * n) * 4, there = r < valid ? p->d_qk - column : 0;
            const float *from = q + (there > 0 ? first + r * p->q_stride.row + column : 0);
            if (IS_PLAIN || p->flags & ATT_FWD_VECTOR)
                x[n] = there > 0 ? __ldg((const float4 *)from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            else
                x[n] = gather_4(from, there);
            most = fmaxf(most, largest_of(x[n]));
        }
        const unsigned exponent = exponent_of(largest_in_row(most));
        store_terms(m->q, Q_BYTES, r, D_QK, x, scale_up(exponent));
        if (threadIdx.x % 8 == 0)
            m->row_scale[r] = scale_back(exponent, 2 * TERM_BITS);
    }
}

/* Split K into terms, with one scale per key. */
DEVICE void cut_keys(const block_memory *m) {
#pragma unroll CUT_AT_ONCE
    for (int i = 0; i < TILE_N * 8 / THREADS; i++) {
        const int r = row_in_turn(i, THREADS);
        float4 x[PIECES(D_QK)];
        const unsigned exponent = exponent_of(largest_in_row(copied_pieces(x, m->copied_k, D_QK, r)));
        store_terms(m->k, K_BYTES, r, D_QK, x, scale_up(exponent));
        if (threadIdx.x % 8 == 0)
            m->key_scale[r] = scale_back(exponent, 0) * CUT_MENDED;
    }
}

/* Find the largest and the smallest nonzero row of V among those of this warp. */
DEVICE void measure_values(const block_memory *m) {
    float most = 0.0f, least = INFINITE;
#pragma unroll CUT_AT_ONCE
    for (int i = 0; i < TILE_N * 8 / THREADS; i++) {
        float4 x[PIECES(D_V)];
        const float row = largest_in_row(copied_pieces(x, m->copied_v, D_V, row_in_turn(i, THREADS)));
        most = fmaxf(most, row);
        least = row > 0.0f ? fminf(least, row) : least;
    }
    for (int lane = 8; lane < 32; lane *= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lane));
        least = fminf(least, __shfl_xor_sync(0xffffffffu, least, lane));
    }
    if (threadIdx.x % 32 == 0) {
        m->value_range[2 * (threadIdx.x / 32)] = most;
        m->value_range[2 * (threadIdx.x / 32) + 1] = least;
    }
}

/* Split V into terms, with one scale for all. Returns the factor for P V. */
DEVICE float cut_values(const block_memory *m) {
    float most = 0.0f, least = INFINITE;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
        most = fmaxf(most, m->value_range[2 * warp]);
        least = fminf(least, m->value_range[2 * warp + 1]);
    }
    const unsigned exponent = exponent_of(most);
#pragma unroll CUT_AT_ONCE
    for (int i = 0; i < TILE_N * 8 / THREADS; i++) {
        const int r = row_in_turn(i, THREADS);
        float4 x[PIECES(D_V)];
        copied_pieces(x, m->copied_v, D_V, r);
        store_terms(m->v, V_BYTES, r, D_V, x, scale_up(exponent));
    }
    const bool infinite = !(most < INFINITE);
    return infinite || exponent > exponent_of(least) + SPREAD_MOST ? UNKNOWN : power_of(exponent, 2 * TERM_BITS);
}

/* Load 16 columns of the warp's rows of Q, in terms. */
DEVICE void load_q_step(unsigned q[M_TILES][2][4], unsigned q_row, int k) {
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
        ldmatrix_x4(q[m][0], swizzle_step(q_row, k) + m * 16 * QK_PITCH);
        ldmatrix_x4(q[m][1], swizzle_step(q_row, k) + m * 16 * QK_PITCH + Q_BYTES);
    }
}

/* Sums of products of terms, big * big and those with a small term separately, for GROUP
 * adjacent results and every 16 rows of the warp. */
typedef float term_sums[2][M_TILES][GROUP][4];

DEVICE void clear(term_sums sums) {
#pragma unroll
    for (int i = 0; i < 2 * M_TILES * GROUP * 4; i++)
        (&sums[0][0][0][0])[i] = 0.0f;
}

/* One step: big * big, big * small, small * big. Words 0 and 1 of b are big terms, 2 and 3
 * small ones. */
DEVICE void mma_terms(term_sums sums, unsigned a[M_TILES][2][4], unsigned b[GROUP][4]) {
#pragma unroll
    for (int kind = 0; kind < 3; kind++)
#pragma unroll
        for (int g = 0; g < GROUP; g++)
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
                mma_16x8x16(sums[kind > 0][m][g], a[m][kind == 2], b[g][kind == 1 ? 2 : 0], b[g][kind == 1 ? 3 : 1]);
}

/* One step summed separately, in one sum, small products first, so that truncation affects only
 * those. */
DEVICE void mma_step_alone(term_sums sums, unsigned a[M_TILES][2][4], unsigned b[GROUP][4], bool first) {
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            float step[4];
            mma_16x8x16_f16_alone(step, a[m][0], b[g][2], b[g][3]);
            mma_16x8x16(step, a[m][1], b[g][0], b[g][1]);
            mma_16x8x16(step, a[m][0], b[g][0], b[g][1]);
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums[0][m][g][e] = first ? step[e] : sums[0][m][g][e] + step[e];
        }
}

DEVICE float total(term_sums sums, int m, int g, int e) {
    return sums[0][m][g][e] + sums[1][m][g][e];
}

/* S = Q K^T for the warp's rows and one tile of keys, without the rows' scales. q_row is this
 * lane's ldmatrix row of big terms. k_row has eight keys: big terms for lanes 0 to 15, small
 * ones for the others. */
DEVICE void score(float s[M_TILES][N_TILES][4], unsigned q[K_STEPS][M_TILES][2][4], unsigned q_row, unsigned k_row,
                  const float *key_scale) {
#pragma unroll
    for (int n = 0; n < N_TILES; n += GROUP) {
        term_sums sums;
        clear(sums);
        if (STEPS_ALONE && n % LOADED_TOGETHER == 0)
            __syncwarp();
#pragma unroll STEPS_AT_ONCE
        for (int k = 0; k < K_STEPS; k++) {
            unsigned a[M_TILES][2][4], b[GROUP][4];
#pragma unroll
            for (int g = 0; g < GROUP; g++)
                ldmatrix_x4(b[g], swizzle_step(k_row, k) + (n + g) * 8 * QK_PITCH);
            if (!Q_IN_REGISTERS)
                load_q_step(a, q_row, k);
            if (STEPS_ALONE)
                mma_step_alone(sums, Q_IN_REGISTERS ? q[k] : a, b, k == 0);
            else
                mma_terms(sums, Q_IN_REGISTERS ? q[k] : a, b);
        }
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            const float2 scale = *(const float2 *)(key_scale + (n + g) * 8 + threadIdx.x % 4 * 2);
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    s[m][n + g][e] = (STEPS_ALONE ? sums[0][m][g][e] : total(sums, m, g, e)) * (e % 2 ? scale.y : scale.x);
        }
    }
}

/* O += P V; `scale` undoes the scales of V and of the weights. v_row has 16 keys: big terms for
 * lanes 0 to 15, small ones for the others. */
DEVICE void accumulate(float o[M_TILES][O_TILES][4], float s[M_TILES][N_TILES][4], unsigned v_row, float scale) {
    unsigned weights[TILE_N / 16][M_TILES][2][4];
#pragma unroll
    for (int k = 0; k < TILE_N / 16; k++)
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *pair = &s[m][2 * k + i / 2][i % 2 * 2];
                const two_terms t = two_terms_of(pair[0], pair[1], (float)(1 << TERM_BITS));
                weights[k][m][0][i] = t.big;
                weights[k][m][1][i] = t.small;
            }
#pragma unroll
    for (int n = 0; n < O_TILES; n += GROUP) {
        term_sums sums;
        clear(sums);
#pragma unroll
        for (int k = 0; k < TILE_N / 16; k++) {
            unsigned b[GROUP][4];
#pragma unroll
            for (int g = 0; g < GROUP; g++)
                ldmatrix_x4_trans(b[g], swizzle_chunk(v_row, n + g) + k * 16 * V_PITCH);
            mma_terms(sums, weights[k], b);
        }
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int g = 0; g < GROUP; g++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    o[m][n + g][e] = fmaf(total(sums, m, g, e), scale, o[m][n + g][e]);
    }
}

/* Apply the scales of the rows to the products (ROLE GENERAL: the following steps need true
 * values). */
DEVICE void scale_rows(float s[M_TILES][N_TILES][4], const float row_scale[M_TILES][2]) {
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[m][n][e] *= row_scale[m][e / 2];
}

/* Update the tops with the maxima of new scores; `factor` converts them to units of log2. */
DEVICE void raise_tops(float s[M_TILES][N_TILES][4], float o[M_TILES][O_TILES][4], float top[M_TILES][2],
                       float sum[M_TILES][2], const float factor[M_TILES][2]) {
    const float slack = USE_LAZY_RESCALE ? FOLLOW_ABOVE : 0.0f;
    float most[M_TILES][2];
    bool raise = false;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            most[m][half] = row_max(s[m], N_TILES, half, factor[m][half]);
            raise = raise || most[m][half] > top[m][half] + slack;
        }
    if (!__any_sync(0xffffffffu, raise))
        return;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (!(most[m][half] > top[m][half] + slack))
                continue;
            const float shrink = exp2_fast(top[m][half] - most[m][half]);
            top[m][half] = most[m][half];
            sum[m][half] *= shrink;
#pragma unroll
            for (int n = 0; n < O_TILES; n++) {
                o[m][n][2 * half] *= shrink;
                o[m][n][2 * half + 1] *= shrink;
            }
        }
}

/* Turn scores into weights. */
DEVICE void weigh_rows(float s[M_TILES][N_TILES][4], const float top[M_TILES][2], float sum[M_TILES][2],
                       const float factor[M_TILES][2]) {
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            weigh(s[m], N_TILES, half, factor[m][half], top[m][half], &sum[m][half]);
}

/* Directly from registers: the four lanes of a row write 32 bytes. */
DEVICE void store_rows(const att_fwd_params *p, const block_work *w, float o[M_TILES][O_TILES][4], char *shared) {
    (void)shared;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row_of(w, m, half);
            if (i >= w->s.len_q)
                continue;
            float *to = (float *)p->o + query_offset(p, &w->s, &p->o_stride, w->head, i) + threadIdx.x % 4 * 2;
#pragma unroll
            for (int n = 0; n < O_TILES; n++)
                if (n * 8 < p->d_v)
                    *(float2 *)(to + n * 8) = make_float2(o[m][n][2 * half], o[m][n][2 * half + 1]);
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    KERNEL(const __grid_constant__ att_fwd_params params) {
    extern __shared__ __align__(128) char shared[];
    const att_fwd_params *p = &params;
    const block_work work = work_of(p);
    if (USE_EARLY_COMBINE && p->splits > 1)
        allow_next_kernel();
    if (work.row0 >= work.s.len_q)
        return;
    const block_memory memory = memory_of(shared);
    const block_work *w = WORK_IN_MEMORY ? memory.work : &work;
    const int first = work.first, last = work.last;
    if (WORK_IN_MEMORY && threadIdx.x == 0)
        *memory.work = work;

    if (first < last)
        copy_keys(p, &work, memory.copied_k, D_QK, p->d_qk, p->k, &p->k_stride, first);
    if (first < last)
        copy_keys(p, &work, memory.copied_v, D_V, p->d_v, p->v, &p->v_stride, first);
    async_commit();
    load_q(p, &work, &memory);
    __syncthreads();

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned q_row = shared_address(memory.q) + swizzled(warp * WARP_ROWS + lane % 16, lane / 16, QK_PITCH);
    const unsigned k_row = shared_address(memory.k) + lane / 16 * K_BYTES + swizzled(lane % 8, lane / 8 % 2, QK_PITCH);
    const unsigned v_row = shared_address(memory.v) + lane / 16 * V_BYTES + swizzled(lane % 16, 0, V_PITCH);

    const bool adjusts = !IS_PLAIN && (p->softcap > 0.0f || p->alibi || p->bias || !(p->scale > 0.0f));
    unsigned q[K_STEPS][M_TILES][2][4];
    float o[M_TILES][O_TILES][4], top[M_TILES][2], sum[M_TILES][2], row_scale[M_TILES][2], factor[M_TILES][2];
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            top[m][half] = -INFINITE;
            sum[m][half] = 0.0f;
            row_scale[m][half] = memory.row_scale[row_of(w, m, half) - w->row0];
            factor[m][half] = adjusts ? 1.0f : row_scale[m][half] * p->scale_log2;
        }
#pragma unroll
        for (int n = 0; n < O_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[m][n][e] = 0.0f;
    }
#pragma unroll
    for (int k = 0; k < K_STEPS; k++)
        if (Q_IN_REGISTERS)
            load_q_step(q[k], q_row, k);
    if (Q_SHARES)
        __syncthreads(); /* Q's place is free */

    /* In tiles below `clear_from` and from `clear_to` on, keys are hidden from some row. */
    const int clear_from = (visible_lo(p, &w->s, min(w->row0 + TILE_M, w->s.len_q) - 1) + TILE_N - 1) / TILE_N;
    const int clear_to = max(visible_hi(p, &w->s, w->row0), 0) / TILE_N;

    for (int j = first; j < last; j++) {
        ASYNC_WAIT(0);
        cut_keys(&memory);
        measure_values(&memory);
        __syncthreads(); /* K is there in terms; V of the tile before is done with */
        if (j + 1 < last)
            copy_keys(p, w, memory.copied_k, D_QK, p->d_qk, p->k, &p->k_stride, j + 1);
        const float scale = cut_values(&memory); /* before the scores: saves registers */
        if (j + 1 < last)
            copy_keys(p, w, memory.copied_v, D_V, p->d_v, p->v, &p->v_stride, j + 1);
        async_commit();

        float s[M_TILES][N_TILES][4];
        score(s, q, q_row, k_row, memory.key_scale);
        if (adjusts) {
            scale_rows(s, row_scale);
            adjust(p, w, s, j);
        }
        if (!USE_CLEAR_TILES || j < clear_from || j >= clear_to)
            hide(p, w, s, j);
        raise_tops(s, o, top, sum, factor);
        weigh_rows(s, top, sum, factor);
        __syncthreads(); /* V is there in terms; K is done with */
        accumulate(o, s, v_row, scale);
    }
    ASYNC_WAIT(0);

    const unsigned redo = finish(p, w, o, top, sum, shared);
    if (__any_sync(0xffffffffu, redo))
        redo_rows(p, w, redo);
}
