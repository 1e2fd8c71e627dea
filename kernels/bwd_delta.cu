/* bwd_delta.cu: per-row terms that the backward kernels need; runs before them
 * COMPUTES per row, delta = dot(dO, O) and the log-sum-exp in units of log2; partial sums of
 *          d_sinks; dQ = 0 for tiles of rows that see no key; counters set to 0. One block per
 *          (batch, query head, TILE_M rows)
 * THREADS  32 * WARPS; each warp has 16 rows
 * SMEM     O | dO, rows swizzled
 * NUMERICS the dot products match dO V^T of the kernels that follow, with O in place of V: the
 *          same instruction, the same operands, the same order of columns. If one key has all
 *          of a row's weight, O equals its V, and dot(dO, V) - delta is exactly 0. If O is not
 *          of DTYPE, it is split into two terms and dO is rounded as in those kernels; d_sinks
 *          then uses both as stored
 * LIMITS   any alignment; d_v <= D_V
 * WHY      bound by memory; the products are hidden behind the loads */
#include "kernels/bwd_rows.cuh"
#include "kernels/bwd_tile_load.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/math.cuh"
#include "kernels/mma.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/reduce.cuh"
#include "kernels/switches_sm90.cuh"

#define THREADS (32 * WARPS)
#define BLOCKS_PER_SM (D_V <= 128 ? 6 : 3) /* as many as fit in shared memory on most GPUs */
#define V_PITCH SWIZZLE_PITCH(D_V)
#define DO_AT   (TILE_M * V_PITCH)
#define SUMS_AT (2 * TILE_M * V_PITCH)

CHECK_SHARED(SUMS_AT + 4 * WARPS);
static_assert(TILE_M == 16 * WARPS, "a warp has 16 rows");

/* The work of one block: rows row0 .. row0 + TILE_M - 1 of a head. */
typedef struct row_block {
    sequence s;
    int head, row0;
} row_block;

/* dO O^T of the warp's 16 rows. The diagonal has each row's own product: lane l with l % 4 = l
 * / 8 holds those of rows l / 4 and l / 4 + 8. */
DEVICE void multiply_rows(float x[2][4], unsigned base, int warp) {
    const int lane = threadIdx.x % 32;
    const unsigned o_row = base + swizzled(warp * 16 + lane % 16, lane / 16, V_PITCH);
    const unsigned do_row = base + DO_AT + swizzled(warp * 16 + lane % 8 + lane / 16 * 8, lane / 8 % 2, V_PITCH);
#pragma unroll
    for (int k = 0; k < (D_V + 15) / 16; k++) {
        unsigned a[4], b[4];
        ldmatrix_x4(a, swizzle_step(o_row, k));
        ldmatrix_x4(b, swizzle_step(do_row, k));
        mma_16x8x16(x[0], a, b[0], b[1]);
        mma_16x8x16(x[1], a, b[2], b[3]);
    }
}

/* Does some key tile of the next kernel visit the row's tile? If not, that kernel does not
 * write its dQ. */
DEVICE bool is_visited(const att_bwd_params *p, const sequence *s, int i) {
    const int first = i / p->tile_rows * p->tile_rows, last = min(first + p->tile_rows, s->len_q) - 1;
    return visible_hi(&p->fwd, s, last) > visible_lo(&p->fwd, s, first);
}

/* The contribution of one row to d_sinks. */
DEVICE float sink_share(const att_bwd_params *p, const row_block *b, float lse, float delta) {
    return exp2_fast((p->fwd.sinks[b->head] - lse) * LOG2_E) * delta;
}

/* Write the terms of row i and return its contribution to d_sinks. */
DEVICE float finish_row(const att_bwd_params *p, const row_block *b, int i, float delta, float *terms) {
    const float lse = p->fwd.lse[query_offset(&p->fwd, &b->s, &p->fwd.lse_stride, b->head, i)];
    const bool has_weights = fabsf(lse) != INFINITE;
    terms[term_of(i)] = has_weights ? lse * LOG2_E : INFINITE;
    terms[term_of(i) + ATT_BWD_TERM_ROWS] = has_weights ? delta : 0.0f;
    return p->d_sinks && has_weights ? sink_share(p, b, lse, delta) : 0.0f;
}

/* The warp's share of d_sinks from O and dO as stored, in lane 0. For types other than DTYPE:
 * the delta of the products uses rounded dO, and the rounding would be visible in d_sinks,
 * which is float32. */
DEVICE float stored_sink_sum(const att_bwd_params *p, const row_block *b, int warp) {
    const att_fwd_params *f = &p->fwd;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = b->row0 + warp * 16; i < min(b->row0 + warp * 16 + 16, b->s.len_q); i++) {
        const long long o = query_offset(f, &b->s, &f->o_stride, b->head, i);
        const long long d_o = query_offset(f, &b->s, &p->d_o_stride, b->head, i);
        float delta = 0.0f;
#pragma unroll 1
        for (int c = threadIdx.x % 32; c < f->d_v; c += 32)
            delta += load_as_float(p->d_o, d_o + c, f->dtype_o) * load_as_float(f->o, o + c, f->dtype_o);
        delta = warp_sum(delta);
        const float lse = f->lse[query_offset(f, &b->s, &f->lse_stride, b->head, i)];
        if (threadIdx.x % 32 == 0 && fabsf(lse) != INFINITE)
            sum += sink_share(p, b, lse, delta);
    }
    return sum;
}

/* Clear the counters of the tiles that begin in this block, and write the terms of rows past
 * the last. */
DEVICE void prepare_tiles(const att_bwd_params *p, const row_block *b, float *terms) {
    const long long number = tile_number(p, &b->s, b->head, 0);
    const int last_row = (b->s.len_q + p->tile_rows - 1) / p->tile_rows * p->tile_rows,
              row_end = min(b->row0 + TILE_M, last_row);
    for (int i = max(b->row0, b->s.len_q) + threadIdx.x; i < row_end; i += THREADS) {
        terms[term_of(i)] = INFINITE;
        terms[term_of(i) + ATT_BWD_TERM_ROWS] = 0.0f;
    }
    const int first = (b->row0 + p->tile_rows - 1) / p->tile_rows, end = (row_end + p->tile_rows - 1) / p->tile_rows;
    for (int i = first * p->turn_count + threadIdx.x; i < end * p->turn_count; i += THREADS)
        p->turns[number * p->turn_count + i] = 0;
}

DEVICE void clear_row(const att_bwd_params *p, const row_block *b, int i) {
    const long long to = query_offset(&p->fwd, &b->s, &p->d_q_stride, b->head, i);
    for (int c = threadIdx.x % 32; c < p->fwd.d_qk; c += 32)
        store_from_float(p->d_q, to + c, p->dtype_grad, 0.0f);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    KERNEL(const __grid_constant__ att_bwd_params params) {
    extern __shared__ __align__(128) char shared[];
    const att_bwd_params *p = &params;
    const att_fwd_params *f = &p->fwd;
    if (USE_EARLY_LAUNCH)
        allow_next_kernel();
    wait_for_previous_kernel();
    /* Heads vary fastest: O usually has neighbouring heads next to each other in memory. */
    const int rows_of_heads = divide(blockIdx.x, &f->by_heads_q), batch = rows_of_heads / p->row_blocks,
              block = rows_of_heads - batch * p->row_blocks;
    const row_block b = {sequence_of(f, batch), (int)blockIdx.x - rows_of_heads * f->heads_q, block * TILE_M};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, valid = b.s.len_q - b.row0;
    const unsigned base = shared_address(shared);
    if (blockIdx.x == 0 && threadIdx.x < ATT_BWD_COUNTERS)
        p->next_work[threadIdx.x] = 0;

    float sink_sum = 0.0f;
    if (b.s.len_q > 0) {
        float *terms = terms_of_tile(p, &b.s, b.head, 0);
        const long long o = query_offset(f, &b.s, &f->o_stride, b.head, b.row0);
        const bool vectors = p->flags & ATT_BWD_VECTOR;
        float x[2][4] = {{0.0f}};
        load_tile_of(base, TILE_M, D_V, f->d_v, f->o, f->dtype_o, o, f->o_stride.row, valid, vectors, THREADS, 0);
        load_tile_of(base + DO_AT, TILE_M, D_V, f->d_v, p->d_o, f->dtype_o,
                     query_offset(f, &b.s, &p->d_o_stride, b.head, b.row0), p->d_o_stride.row, valid, vectors, THREADS,
                     0);
        async_commit();
        prepare_tiles(p, &b, terms);
        ASYNC_WAIT(0);
        __syncthreads();
        multiply_rows(x, base, warp);
        if (f->dtype_o != DTYPE) { /* the second term: what rounding O to DTYPE left over */
            __syncthreads();
            load_tile_of(base, TILE_M, D_V, f->d_v, f->o, f->dtype_o, o, f->o_stride.row, valid, vectors, THREADS, 1);
            __syncthreads();
            multiply_rows(x, base, warp);
        }
        if (lane % 4 == lane / 8)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int i = b.row0 + warp * 16 + half * 8 + lane / 4;
                if (i < b.s.len_q)
                    sink_sum +=
                        finish_row(p, &b, i, lane / 4 % 2 ? x[half][2 * half + 1] : x[half][2 * half], terms);
            }
#pragma unroll 1
        for (int i = b.row0 + warp * 16; i < min(b.row0 + warp * 16 + 16, b.s.len_q); i++)
            if (!is_visited(p, &b.s, i))
                clear_row(p, &b, i);
    }
    if (p->d_sinks) {
        float *sums = (float *)(shared + SUMS_AT);
        const float sum =
            f->dtype_o != DTYPE && b.s.len_q > 0 ? stored_sink_sum(p, &b, warp) : warp_sum(sink_sum);
        if (lane == 0)
            sums[warp] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            float total = 0.0f;
            for (int w = 0; w < WARPS; w++)
                total += sums[w];
            p->sink_sums[((long long)b.head * f->batch + batch) * p->row_blocks + block] = total;
        }
    }
}
