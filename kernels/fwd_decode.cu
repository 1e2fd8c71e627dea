/* fwd_decode.cu: forward attention for a few query rows against many keys
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; one block per (batch, K/V head, 16 rows,
 *          split of the keys)
 * TILE     TILE_M = 16 rows, out of all positions of the query heads of a group, against TILE_N
 *          keys per warp
 * THREADS  32 * WARPS; every warp walks its own keys with its own copies in flight and its own
 *          running softmax. Warps do not wait for each other until the end, where their results
 *          are merged
 * SMEM     per warp a ring of STAGES x (K TILE_N x D_QK | V TILE_N x D_V); the merge reuses it
 * FLOW     K and V are read once for the whole group: the kernel is bound by memory bandwidth
 * NUMERICS as fwd_sm80; the merge is in the order of the warps
 * LIMITS   meant for few rows per K/V head; d_qk <= D_QK, d_v <= D_V; every feature, any
 *          alignment
 * WHY      the cost of a short call is the launch and code that runs once, so loops that fill
 *          the pipeline are not unrolled. Tried on an H200 and lost: combining parts in the
 *          last block of a tile to arrive; one part per warp; 8 warps per block; 32 keys per
 *          step; more splits than SMs */
#define K_BYTES     (TILE_N * QK_PITCH)
#define STAGE_BYTES (TILE_N * (QK_PITCH + V_PITCH))
#define RING_BYTES  (STAGES * STAGE_BYTES)

#include "kernels/fwd_decode_tile.cuh"
#include "kernels/fwd_softmax.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mma.cuh"
#include "kernels/programmatic_launch.cuh"

#define N_TILES (TILE_N / 8)
#define K_STEPS ((D_QK + 15) / 16)
#define O_TILES ((D_V + 15) / 16 * 2)

CHECK_SHARED(WARPS * RING_BYTES);
static_assert(TILE_M == 16, "the rows are those of one mma");
static_assert(TILE_M * QK_PITCH <= STAGE_BYTES, "Q fits where a step will be");

DEVICE void load_step(const att_fwd_params *p, const block_work *w, unsigned stage, int j) {
    const int key0 = j * TILE_N, valid = w->s.len_k - key0, lane = threadIdx.x % 32;
    const half_bits *k = (const half_bits *)p->k, *v = (const half_bits *)p->v;
    if (!p->page_table && p->flags & ATT_FWD_VECTOR) {
        copy_rows(stage, TILE_N, D_QK, k + key_offset(p, &w->s, &p->k_stride, w->head_kv, key0),
                  p->k_stride.row, valid, p->d_qk, lane, 32);
        copy_rows(stage + K_BYTES, TILE_N, D_V, v + key_offset(p, &w->s, &p->v_stride, w->head_kv, key0),
                  p->v_stride.row, valid, p->d_v, lane, 32);
        return;
    }
    for (int r = lane / 8; r < TILE_N; r += 4) {
        const bool there = r < valid, aligned = p->flags & ATT_FWD_VECTOR;
        load_row(stage, D_QK, r, k, there ? key_offset(p, &w->s, &p->k_stride, w->head_kv, key0 + r) : -1,
                 p->d_qk, aligned, lane % 8, 8);
        load_row(stage + K_BYTES, D_V, r, v,
                 there ? key_offset(p, &w->s, &p->v_stride, w->head_kv, key0 + r) : -1, p->d_v, aligned,
                 lane % 8, 8);
    }
}

/* Products of one step. Even and odd parts of the head dimension are summed separately: two
 * short dependency chains instead of one long one. */
DEVICE void score(float s[N_TILES][4], unsigned q[K_STEPS][4], unsigned k_row) {
    float odd[N_TILES][4];
#pragma unroll
    for (int n = 0; n < N_TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] = odd[n][e] = 0.0f;
#pragma unroll
    for (int k = 0; k < K_STEPS; k++)
#pragma unroll
        for (int n = 0; n < N_TILES; n += 2) {
            unsigned b[4];
            ldmatrix_x4(b, swizzle_step(k_row, k) + n * 8 * QK_PITCH);
            mma_16x8x16(k % 2 ? odd[n] : s[n], q[k], b[0], b[1]);
            mma_16x8x16(k % 2 ? odd[n + 1] : s[n + 1], q[k], b[2], b[3]);
        }
#pragma unroll
    for (int n = 0; n < N_TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] += odd[n][e];
}

/* Apply features and mask in steps that need either. `at_once`: products are turned into
 * weights without becoming scores. */
DEVICE void adjust(const att_fwd_params *p, const block_work *w, float s[N_TILES][4], bool at_once, int j) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = min(lane / 4 + 8 * half, w->rows - 1);
        const tile_row row = row_of(p, w, r);
        const int lo = visible_lo(p, &w->s, row.position), hi = visible_hi(p, &w->s, row.position);
        const float slope = slope_of(p, w->s.batch, row.head);
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int key = j * TILE_N + n * 8 + lane % 4 * 2 + e;
                float *x = &s[n][2 * half + e];
                if (key < lo || key >= hi)
                    *x = -INFINITE;
                else if (!at_once)
                    *x = score_of(p, &w->s, row.head, row.position, key, slope, *x);
            }
    }
}

DEVICE void accumulate(float o[O_TILES][4], float s[N_TILES][4], unsigned v_row) {
#pragma unroll
    for (int k = 0; k < TILE_N / 16; k++) {
        const unsigned a[4] = {pack_16(DTYPE, s[2 * k][0], s[2 * k][1]), pack_16(DTYPE, s[2 * k][2], s[2 * k][3]),
                               pack_16(DTYPE, s[2 * k + 1][0], s[2 * k + 1][1]),
                               pack_16(DTYPE, s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < O_TILES; n += 2) {
            unsigned b[4];
            ldmatrix_x4_trans(b, swizzle_step(v_row, n / 2) + k * 16 * V_PITCH);
            mma_16x8x16(o[n], a, b[0], b[1]);
            mma_16x8x16(o[n + 1], a, b[2], b[3]);
        }
    }
}

/* Turn scores into weights relative to the running maximum, which is updated when it grows by
 * more than `slack`. */
DEVICE void softmax_step(float s[N_TILES][4], float o[O_TILES][4], float top[2], float sum[2],
                         float factor, float slack) {
    const float high[2] = {row_max(s, N_TILES, 0, factor), row_max(s, N_TILES, 1, factor)};
    const bool raise[2] = {high[0] > top[0] + slack, high[1] > top[1] + slack};
    if (__any_sync(0xffffffffu, raise[0] || raise[1])) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float shrink = raise[half] ? exp2_fast(top[half] - high[half]) : 1.0f;
            top[half] = raise[half] ? high[half] : top[half];
            sum[half] *= shrink;
#pragma unroll
            for (int n = 0; n < O_TILES; n++) {
                o[n][2 * half] *= shrink;
                o[n][2 * half + 1] *= shrink;
            }
        }
    }
    weigh(s, N_TILES, 0, factor, top[0], &sum[0]);
    weigh(s, N_TILES, 1, factor, top[1], &sum[1]);
}

/* Write this warp's rows to shared memory for the others. */
DEVICE void publish(float *results, int rows, float o[O_TILES][4], const float top[2], const float sum[2]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (rows <= 8 * half)
            break;
        float *row = results + threadIdx.x / 32 * RESULT_STEP + (lane / 4 + 8 * half) * RESULT_PITCH;
#pragma unroll
        for (int n = 0; n < O_TILES; n++)
            *(float2 *)(row + 8 * n + lane % 4 * 2) = make_float2(o[n][2 * half], o[n][2 * half + 1]);
        const float total = quad_sum(sum[half]);
        if (lane % 4 == 0) {
            row[RESULT_COLS] = top[half];
            row[RESULT_COLS + 1] = total;
        }
    }
}

/* Merge the warps' rows. Store them as parts if the keys are split, otherwise as results. */
DEVICE void store_rows(const att_fwd_params *p, const block_work *w, const float *results) {
    for (int r = threadIdx.x / 32; r < w->rows; r += WARPS) {
        const tile_row row = row_of(p, w, r);
        const merged_row m = merge_warps(results, r);
        if (p->splits > 1)
            store_part(p, part_index(p, part_row(p, w->s.batch, row.head, row.position), blockIdx.y), &m);
        else
            finish_row(p, &w->s, row.head, row.position, &m, p->d_v);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    KERNEL(const __grid_constant__ att_fwd_params params) {
    extern __shared__ __align__(128) char shared[];
    const att_fwd_params *p = &params;
    wait_for_previous_kernel();
    if (p->splits > 1)
        allow_next_kernel(); /* the combining kernel, which waits for this one */
    const block_work w = work_of(p);
    if (w.rows <= 0)
        return;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned ring = shared_address(shared) + warp * RING_BYTES;
    const unsigned q_tile = ring + (STAGES - 1) * STAGE_BYTES; /* free until the first step */
    const int first = w.first + warp;

    copy_q(p, &w, q_tile);
#pragma unroll 1
    for (int n = 0; n < STAGES - 1; n++) {
        if (first + n * WARPS < w.last)
            load_step(p, &w, ring + n * STAGE_BYTES, first + n * WARPS);
        async_commit();
    }
    unsigned q[K_STEPS][4];
    const unsigned q_row = q_tile + swizzled(lane % 16, lane / 16, QK_PITCH);
    ASYNC_WAIT(STAGES - 2);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < K_STEPS; k++)
        ldmatrix_x4(q[k], swizzle_step(q_row, k));
    __syncwarp();

    const bool at_once = weighs_at_once(p);
    const float factor = at_once ? p->scale_log2 : 1.0f;
    const float slack = p->dtype_o == F32 ? 0.0f : RAISE_ABOVE;

    float o[O_TILES][4], top[2] = {-INFINITE, -INFINITE}, sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int n = 0; n < O_TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            o[n][e] = 0.0f;
    const unsigned k_row = ring + swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2, QK_PITCH);
    const unsigned v_row = ring + K_BYTES + swizzled(lane % 16, lane / 16, V_PITCH);

    int stage = 0;
    for (int j = first; j < w.last; j += WARPS) {
        ASYNC_WAIT(STAGES - 2);
        __syncwarp();
        const int ahead = j + (STAGES - 1) * WARPS, free = stage == 0 ? STAGES - 1 : stage - 1;
        if (ahead < w.last)
            load_step(p, &w, ring + free * STAGE_BYTES, ahead);
        async_commit();
        float s[N_TILES][4];
        score(s, q, k_row + stage * STAGE_BYTES);
        if (!at_once || j * TILE_N < w.clear_from || (j + 1) * TILE_N > w.clear_to)
            adjust(p, &w, s, at_once, j);
        softmax_step(s, o, top, sum, factor, slack);
        accumulate(o, s, v_row + stage * STAGE_BYTES);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    ASYNC_WAIT(0);
    __syncwarp();
    if (p->splits == 1)
        allow_next_kernel();
    publish((float *)shared, w.rows, o, top, sum);
    __syncthreads();
    store_rows(p, &w, (const float *)shared);
}
