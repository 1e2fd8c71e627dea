/* fwd_combine.cu: combines the parts of rows whose keys were split
 * COMPUTES O and LSE from the parts (fwd_join_parts.cuh) and the sink; row_warps warps per row, or
 *          two rows per warp
 * THREADS  32 * WARPS; each warp of a row sums every row_warps-th part; then one of them adds
 *          up the warps' sums
 * SMEM     2 x WARPS x 128 ceil(D_V / 128) float32
 * FLOW     the block starts while the kernel that computes the parts is finishing, and waits
 *          for it; the next kernel may start while this one runs
 * NUMERICS float32 in a fixed order: the same bits on every run; a row that is not finite is
 *          recomputed in float64
 * LIMITS   d_v <= D_V */
#include "kernels/fwd_join_parts.cuh"
#include "kernels/programmatic_launch.cuh"

#define BATCH 4 /* parts that a warp loads at once */
#define ROWS  ATT_FWD_ROWS_AT_ONCE
#define BATCH_OF_ROWS (QUADS == 1 ? 4 : 2) /* the same, per row, for several rows */

static_assert(32 % (BATCH * WARPS) == 0, "the lanes hold the weights of whole batches");

/* The position in the problem of a row of the parts. */
typedef struct row_place {
    int batch, head, i;
} row_place;

DEVICE row_place place_of(const att_fwd_params *p, unsigned row) {
    const unsigned pair = divide(row, &p->by_seq_q), batch = divide(pair, &p->by_heads_q);
    return {(int)batch, (int)(pair - batch * p->heads_q), (int)(row - pair * p->seq_q)};
}

/* The first `count` parts of a row. */
DEVICE row_parts parts_of(const att_fwd_params *p, unsigned row, unsigned rows, int count) {
    return {p->partial_o + (long long)row * p->d_v, (const float2 *)p->partial_sums + row, rows, 0, count, p->d_v, p->d_v % 4 == 0};
}

/* Combine several rows in one warp. With many rows, throughput depends on how many loads are in
 * flight. */
DEVICE void combine_rows(const att_fwd_params *p, unsigned row0, unsigned rows) {
    row_parts parts[ROWS];
    joined_row j[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        parts[r] = parts_of(p, min(row0 + r, rows - 1), rows, p->splits); /* repeats the last row past the end */
        j[r] = begin_row(&parts[r]);
    }
#pragma unroll 1
    for (int first = 0; first < p->splits; first += BATCH_OF_ROWS) {
        float4 x[ROWS][BATCH_OF_ROWS][QUADS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            load_parts(&parts[r], x[r], BATCH_OF_ROWS, first, 0, 1);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            add_parts(&parts[r], &j[r], x[r], BATCH_OF_ROWS, first, 0, 1);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const row_place at = place_of(p, min(row0 + r, rows - 1));
        const sequence s = sequence_of(p, at.batch);
        finish_row(p, &s, at.head, at.i, &j[r].m, row0 + r < rows && at.i < s.len_q ? p->d_v : 0);
    }
}

/* Combine the parts of one row and write it; with 0 `parts`, do everything except the writes.
 * All warps of a team must call this together. */
DEVICE void combine_row(const att_fwd_params *p, unsigned row, int member, int team, int parts) {
    __shared__ float4 of_warp[2][WARPS][QUADS][32]; /* for the call without parts; with parts */
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned rows = p->batch * p->heads_q * p->seq_q;
    const row_place at = place_of(p, row);
    const sequence s = sequence_of(p, at.batch);
    const row_parts all = parts_of(p, row, rows, parts);
    joined_row j = begin_row(&all);
    int first = 0;
    do {
        float4 x[BATCH][QUADS];
        load_parts(&all, x, BATCH, first, member, team);
        add_parts(&all, &j, x, BATCH, first, member, team);
        first += BATCH * team;
    } while (first < parts);

    if (team > 1) {
#pragma unroll
        for (int g = 0; g < QUADS; g++)
            of_warp[parts > 0][warp][g][lane] = j.m.o[g];
        __syncthreads();
        if (member > 0)
            return;
#pragma unroll
        for (int n = 1; n < WARPS; n++)
#pragma unroll
            for (int g = 0; g < QUADS; g++)
                add_weighed(&j.m.o[g], 1.0f, of_warp[parts > 0][n][g][lane]);
    }
    finish_row(p, &s, at.head, at.i, &j.m, parts > 0 && at.i < s.len_q ? p->d_v : 0);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 5)
    KERNEL(const __grid_constant__ att_fwd_params params) {
    const att_fwd_params *p = &params;
    const int warp = threadIdx.x / 32;
    const int team = p->row_warps; /* 0, 1 or WARPS */
    const unsigned rows = p->batch * p->heads_q * p->seq_q;
    if (team == 0) {
        const unsigned row0 = (blockIdx.x * WARPS + warp) * ROWS;
        wait_for_previous_kernel();
        allow_next_kernel();
        if (row0 < rows)
            combine_rows(p, row0, rows);
        return;
    }
    const unsigned row = blockIdx.x * (WARPS / team) + warp / team;
    if (row >= rows)
        return;
    /* Run twice. The first pass has no parts, while they are still being computed, and brings
     * code and parameters into the SM's caches. */
    int parts = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        asm volatile("" : "+r"(parts)); /* keeps the compiler from duplicating the body */
        combine_row(p, row, warp % team, team, parts);
        if (pass == 0) {
            wait_for_previous_kernel();
            allow_next_kernel();
            parts = p->splits;
        }
    }
}
