/* bwd_sm80.cu: the gradients of attention on the tensor cores of Ampere, Ada and newer
 * COMPUTES dQ, dK and dV from Q, K, V, dO and the terms of bwd_delta. One block per (batch, K/V
 *          head, TILE_N keys); it walks the rows of every query head of the group from the last
 *          to the first
 * TILE     TILE_M rows x TILE_N keys; D_QK and D_V padded to 16; STAGES tiles of Q and dO
 * THREADS  32 * WARPS; each warp has 16 * K_TILES keys, whose dK and dV stay in its registers.
 *          Above D = 64 two warps share keys (IS_SHARED): each computes the scores of half of
 *          the rows, and dK and dV of half of the columns, and reads the other's P and dS from
 *          shared memory
 * SMEM     K | V | (Q | dO) x STAGES | dS x DS_STAGES | P if shared | lse and delta x STAGES |
 *          the block's work
 * FLOW     copy    Q1 dO1 | Q2 dO2 | ...   one barrier per tile of rows (two if STAGES is 1)
 *          tensor  S0 dP0 .. dV0 dK0 | dQ0 S1 dP1 .. dV1 dK1 | dQ1 ...
 *          alu            P0 dS0     |        P1 dS1
 *          S and dP are computed transposed, keys by rows, so that P and dS can be used
 *          directly from registers as the left operands of dV and dK
 * ORDER    the parts of dQ are added in float32 in the workspace, in the order of the key
 *          tiles: a warp waits for its turn at its piece of a row tile, adds, and passes the
 *          turn on. Blocks draw their work from a counter and wait only for work drawn earlier,
 *          so there is no deadlock whatever else runs. The first key tile stores and the last
 *          one writes dQ, so no other kernel has to clear or convert anything
 * NUMERICS float32 S, dP and sums; P and dS rounded to DTYPE; the same bits on every run;
 *          results that are not finite are recomputed in float64
 * LIMITS   d_qk <= D_QK, d_v <= D_V. ROLE PLAIN: rows at multiples of 16 bytes, no softcap, no
 *          ALiBi, no bias, dO of type DTYPE. ROLE GENERAL: everything
 * SWITCHES switches.def: every optimisation can be turned off to measure its effect */
#include "kernels/bwd_sm80_keys.cuh"
#include "kernels/bwd_sm80_products.cuh"
#include "kernels/bwd_sm80_queries.cuh"
#include "kernels/bwd_sm80_scores.cuh"
#include "kernels/bwd_tile_load.cuh"
#include "kernels/warpgroup.cuh"

#define BLOCKS_PER_SM (8 / WARPS)

/* Plain rows know at compile time that everything is of DTYPE and aligned. */
DEVICE void load_tile(const att_bwd_params *p, unsigned tile, int rows, int d_tile, int d, const void *tensor, int type,
                      long long first, long long stride, int valid) {
    load_tile_of(tile, rows, d_tile, d, tensor, IS_PLAIN ? DTYPE : type, first, stride, valid,
                 IS_PLAIN || p->flags & ATT_BWD_VECTOR, THREADS, 0);
}

DEVICE void load_keys(const att_bwd_params *p, const block_work *w, unsigned base) {
    const att_fwd_params *f = &p->fwd;
    const int valid = w->s.len_k - w->key0;
    load_tile(p, base, TILE_N, D_QK, f->d_qk, f->k, DTYPE, key_offset(f, &w->s, &f->k_stride, w->head_kv, w->key0),
              f->k_stride.row, valid);
    load_tile(p, base + K_BYTES, TILE_N, D_V, f->d_v, f->v, DTYPE,
              key_offset(f, &w->s, &f->v_stride, w->head_kv, w->key0), f->v_stride.row, valid);
}

/* Load Q, dO, log-sums and deltas of a step into stage `stage`. */
DEVICE void load_rows(const att_bwd_params *p, const block_work *w, unsigned base, int stage, row_step at) {
    const att_fwd_params *f = &p->fwd;
    const int row0 = at.tile * TILE_M, valid = w->s.len_q - row0;
    const unsigned q = base + STAGE_AT + stage * (Q_BYTES + DO_BYTES);
    load_tile(p, q, TILE_M, D_QK, f->d_qk, f->q, DTYPE, query_offset(f, &w->s, &f->q_stride, at.head, row0),
              f->q_stride.row, valid);
    load_tile(p, q + Q_BYTES, TILE_M, D_V, f->d_v, p->d_o, f->dtype_o,
              query_offset(f, &w->s, &p->d_o_stride, at.head, row0), p->d_o_stride.row, valid);
    if (threadIdx.x < TILE_M / 2)
        async_copy_16(base + ROWS_AT + stage * ROW_BYTES + threadIdx.x * 16,
                      terms_of_tile(p, &w->s, at.head, at.tile) + 4 * threadIdx.x, 16);
}

/* Where lane 0 writes this warp's sum for d_alibi. */
DEVICE float *alibi_sum_of(const att_bwd_params *p, const block_work *w, int head) {
    return p->alibi_sums + (((long long)head * p->fwd.batch + w->s.batch) * p->key_tiles + w->key_tile) * WARPS +
           threadIdx.x / 32;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    KERNEL(const __grid_constant__ att_bwd_params params) {
    extern __shared__ __align__(128) char shared[];
    const att_bwd_params *p = &params;
    const att_fwd_params *f = &p->fwd;
    block_work *work = (block_work *)(shared + WORK_AT);
    if (threadIdx.x == 0)
        *work = work_of(p, (int)atomicAdd(p->next_work, 1u));
    __syncthreads();
    const block_work *w = work;
    const unsigned base = shared_address(shared);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int key_group = warp % KEY_GROUPS, half = IS_SHARED ? warp / KEY_GROUPS : 0, row0 = half * WARP_ROWS;

    const int steps = (w->last - w->first) * f->group;
    row_step now = {w->head_kv * f->group, w->last - 1}, before = now;
    if (p->d_alibi && lane == 0)
        for (int g = 0; g < f->group; g++)
            *alibi_sum_of(p, w, now.head + g) = 0.0f;
    if (steps > 0) {
        load_keys(p, w, base);
        if (STAGES > 1)
            load_rows(p, w, base, 0, now);
    }
    async_commit();

    float sum[K_TILES][SUM_TILES][4];
#pragma unroll
    for (int m = 0; m < K_TILES; m++)
#pragma unroll
        for (int n = 0; n < SUM_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[m][n][e] = 0.0f;

    /* The ldmatrix rows of this lane: keys as left operands; rows as right operands of products
     * over columns, and of products over rows. */
    const unsigned k_row = base + swizzled(key_group * WARP_KEYS + lane % 16, lane / 16, QK_PITCH);
    const unsigned v_row = base + K_BYTES + swizzled(key_group * WARP_KEYS + lane % 16, lane / 16, V_PITCH);
    const unsigned tile0 = base + STAGE_AT;
    const unsigned q_row = tile0 + swizzled(row0 + lane % 8 + lane / 16 * 8, lane / 8 % 2, QK_PITCH);
    const unsigned do_row = tile0 + Q_BYTES + swizzled(row0 + lane % 8 + lane / 16 * 8, lane / 8 % 2, V_PITCH);
    const unsigned q_across = tile0 + swizzled(lane % 16, lane / 16, QK_PITCH);
    const unsigned do_across = tile0 + Q_BYTES + swizzled(lane % 16, lane / 16, V_PITCH);

    unsigned open_turn = NO_TURN;         /* taken by this warp and not yet passed on */
    float alibi_sum = 0.0f, check = 0.0f; /* check: nonzero if part of dQ is not finite */
    for (int step = 0; step < steps; step++) {
        const int stage = STAGES == 1 ? 0 : step % 2;
        const unsigned ds = base + DS_AT + (DS_STAGES == 1 ? 0 : step % 2) * DS_BYTES;
        const unsigned ds_before = base + DS_AT + (DS_STAGES == 1 ? 0 : 1 - step % 2) * DS_BYTES;
        if (STAGES > 1)
            ASYNC_WAIT(0);
        __syncthreads(); /* dS of the step before is whole, and its tiles are free */
        if (STAGES == 1)
            load_rows(p, w, base, 0, now);
        else if (step + 1 < steps)
            load_rows(p, w, base, 1 - stage, step_after(w, now));
        async_commit();
        if (step > 0)
            check += add_query_gradient(p, w, before, base, ds_before, warp, &open_turn);
        if (!USE_LATE_TURNS)
            end_turn(p, &open_turn);
        if (STAGES == 1) {
            ASYNC_WAIT(0);
            __syncthreads();
        }

        const unsigned at = stage * (Q_BYTES + DO_BYTES);
        const char *rows = shared + ROWS_AT + stage * ROW_BYTES;
        const int i0 = now.tile * TILE_M, i1 = min(i0 + TILE_M, w->s.len_q) - 1;
        const bool masked =
            !USE_CLEAR_TILES || visible_lo(f, &w->s, i1) > w->key0 || visible_hi(f, &w->s, i0) < w->key0 + TILE_N;
#pragma unroll
        for (int c = 0; c < WARP_ROWS / CHUNK; c++) {
            float s[K_TILES][C_TILES][4], dp[K_TILES][C_TILES][4];
            unsigned weights[K_TILES][C_TILES / 2][4], grads[K_TILES][C_TILES / 2][4];
            const int row = row0 + c * CHUNK, key = key_group * WARP_KEYS;
            multiply(s, k_row, q_row + at + c * CHUNK * QK_PITCH, QK_STEPS, QK_PITCH);
            if (USE_LATE_TURNS && c == 0) /* the additions have completed by now */
                end_turn(p, &open_turn);
            multiply(dp, v_row, do_row + at + c * CHUNK * V_PITCH, V_STEPS, V_PITCH);
            if (IS_PLAIN) {
                weigh(p, row, rows, s, dp);
                if (masked)
                    hide(p, w, now, key_group, row, s, dp);
            } else
                alibi_sum += weigh_features(p, w, now, key_group, row, rows, s, dp);
            pack_operands(weights, s);
            if (IS_SHARED)
                store_operands(base + P_AT, key, row, weights);
            accumulate(sum, 0, V_TILES, weights, do_across + at + row * V_PITCH, half, V_PITCH);
            pack_operands(grads, dp);
            store_operands(ds, key, row, grads);
            accumulate(sum, V_TILES, QK_TILES, grads, q_across + at + row * QK_PITCH, half, QK_PITCH);
            if (IS_SHARED) { /* the other warp's rows */
                const int other = (1 - half) * WARP_ROWS;
                named_barrier_wait(1 + key_group, 64);
                load_operands(weights, base + P_AT, key, other);
                load_operands(grads, ds, key, other);
                accumulate(sum, 0, V_TILES, weights, do_across + at + other * V_PITCH, half, V_PITCH);
                accumulate(sum, V_TILES, QK_TILES, grads, q_across + at + other * QK_PITCH, half, QK_PITCH);
            }
        }
        if (!IS_PLAIN && p->d_alibi && now.tile == w->first) {
            const float total = warp_sum(alibi_sum);
            if (lane == 0)
                *alibi_sum_of(p, w, now.head) = total;
            alibi_sum = 0.0f;
        }
        before = now;
        now = step_after(w, now);
    }
    ASYNC_WAIT(0);
    __syncthreads();
    if (steps > 0)
        check += add_query_gradient(p, w, before, base,
                                    base + DS_AT + (DS_STAGES == 1 ? 0 : (steps - 1) % 2) * DS_BYTES, warp, &open_turn);
    end_turn(p, &open_turn);

    unsigned bad =
        store_keys(p, w, sum, 0, V_TILES, key_group, half * V_TILES * 8, p->d_v, &p->d_v_stride, f->d_v, 1.0f);
    bad |= store_keys(p, w, sum, V_TILES, QK_TILES, key_group, half * QK_TILES * 8, p->d_k, &p->d_k_stride, f->d_qk,
                      f->scale);
    clear_unused_keys(p, w);
    if (__any_sync(0xffffffffu, bad))
        repair_keys(p, w, bad, key_group, half);
    if (__any_sync(0xffffffffu, !(check == 0.0f)))
        repair_queries(p, w, warp);
}
