/* moe_sm80.cu: the first product of a layer of experts, and the activation
 * COMPUTES h = act(W1 x + b1, W3 x + b3) for the slots of an expert; one block per (tile of
 *          TILE_M positions, columns of h)
 * TILE     TILE_M positions x 2 TILE_N rows of weights: TILE_N columns of h with a gate, twice
 *          as many without
 * THREADS  32 * WARPS; every warp has 16 or 32 of the positions and its share of the columns
 * SMEM     STAGES tiles of x and weights, 64 columns deep | the addresses of their rows; h is
 *          stored through the ring
 * FLOW     copies of STAGES - 1 tiles are in flight while one is multiplied; the loads gather
 *          the rows of x
 * NUMERICS float32 sums, h rounded to DTYPE. A row depends only on its token and the weights,
 *          not on its position
 * LIMITS   float16 and bfloat16; any sizes, strides and alignment, but slower if rows are not
 *          whole vectors of 16 bytes
 * WHY      gate and up rows alternate by eight in the tile, or one by one if they do in memory,
 *          so that a thread has both of a column. Blocks of one expert and the same columns are
 *          consecutive, so that weights are read from memory once */
#define B_ROWS (2 * TILE_N)
#include "kernels/convert.cuh"
#include "kernels/moe_activation.cuh"
#include "kernels/moe_gate.cuh"
#include "kernels/moe_tile.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/vector.cuh"

/* Layout of h in shared memory: rows of up to B_ROWS columns, one chunk longer so that rows
 * fall into different banks. */
#define OUT_PITCH (B_ROWS * 2 + 16)
static_assert(TILE_M * OUT_PITCH <= RING, "h fits the ring");

/* The column of row r of the tile, relative to the first of the block, and whether it belongs
 * to `up`. */
DEVICE int column_of(const att_moe_params *p, int r, bool *is_up) {
    *is_up = false;
    if (!(p->flags & ATT_MOE_GATED))
        return r;
    if (p->gate == ATT_MOE_GATE_BY_TURNS) {
        *is_up = r % 2;
        return r / 2;
    }
    *is_up = r / 8 % 2;
    return r / 16 * 8 + r % 8;
}

/* Store the addresses of the rows that the block multiplies. */
DEVICE void point_rows(const att_moe_params *p, const tile_work *w, const half_bits **rows) {
    const int column0 = w->step * p->up_columns;
    const bool by_depth = p->flags & ATT_MOE_KN;
    for (int i = threadIdx.x; i < TILE_M; i += THREADS)
        rows[i] = i < w->count ? (const half_bits *)p->x + p->slot_at[w->first + i] / p->k * p->x_row : 0;
    for (int i = threadIdx.x; i < (by_depth ? B_ROWS / 8 : B_ROWS); i += THREADS) {
        bool is_up;
        const int c = column0 + column_of(p, by_depth ? i * 8 : i, &is_up);
        const att_moe_matrix *m = is_apart(p, is_up) ? &p->w3 : &p->w1;
        const half_bits *base = (const half_bits *)m->base + w->expert * m->expert;
        const long long row = weight_row(p, c, is_up);
        rows[TILE_M + i] = c < p->inner ? base + (by_depth ? row : row * m->row) : 0;
    }
}

/* Write h of two neighbouring columns of a thread, (r, c) and (r, c + 1), to the output tile in
 * shared memory. */
DEVICE void put_pair(char *out, int r, int c, float first, float second) {
    *(unsigned *)(out + r * OUT_PITCH + c * 2) = pack_16(DTYPE, first, second);
}

DEVICE void put_one(char *out, int r, int c, float x) {
    *(half_bits *)(out + r * OUT_PITCH + c * 2) = (half_bits)(pack_16(DTYPE, x, 0.0f) & 0xffffu);
}

/* Gate in one tile of eight columns, up in the next. */
DEVICE void put_by_eights(const att_moe_params *p, const tile_work *w, float sum[M_TILES][N_TILES][4], char *out) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < N_TILES; n += 2) {
        const int c = (warp_column() + n * 8) / 2 + lane % 4 * 2, column = w->step * p->up_columns + c;
        const float g0 = gate_bias(p, w->expert, column, false), g1 = gate_bias(p, w->expert, column + 1, false);
        const float u0 = gate_bias(p, w->expert, column, true), u1 = gate_bias(p, w->expert, column + 1, true);
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float *g = sum[m][n] + 2 * half, *u = sum[m][n + 1] + 2 * half;
                put_pair(out, warp_row() + m * 16 + half * 8 + lane / 4, c, activate(p, g[0] + g0, u[0] + u0),
                         activate(p, g[1] + g1, u[1] + u1));
            }
    }
}

/* Gate and up in neighbouring columns. */
DEVICE void put_by_turns(const att_moe_params *p, const tile_work *w, float sum[M_TILES][N_TILES][4], char *out) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < N_TILES; n++) {
        const int c = (warp_column() + n * 8) / 2 + lane % 4, column = w->step * p->up_columns + c;
        const float g0 = gate_bias(p, w->expert, column, false), u0 = gate_bias(p, w->expert, column, true);
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                put_one(out, warp_row() + m * 16 + half * 8 + lane / 4, c,
                        activate(p, sum[m][n][2 * half] + g0, sum[m][n][2 * half + 1] + u0));
    }
}

DEVICE void put_without_gate(const att_moe_params *p, const tile_work *w, float sum[M_TILES][N_TILES][4], char *out) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < N_TILES; n++) {
        const int c = warp_column() + n * 8 + lane % 4 * 2, column = w->step * p->up_columns + c;
        const float b0 = gate_bias(p, w->expert, column, false), b1 = gate_bias(p, w->expert, column + 1, false);
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                put_pair(out, warp_row() + m * 16 + half * 8 + lane / 4, c, activate(p, sum[m][n][2 * half] + b0, 0.0f),
                         activate(p, sum[m][n][2 * half + 1] + b1, 0.0f));
    }
}

/* Store the rows of h that exist, 16 bytes at a time, up to their end. */
DEVICE void store_h(const att_moe_params *p, const tile_work *w, const char *out) {
    const int column0 = w->step * p->up_columns, chunks = p->up_columns / 8;
    for (int i = threadIdx.x; i < w->count * chunks; i += THREADS) {
        const int r = i / chunks, c = i % chunks * 8;
        if (column0 + c < p->h_pitch)
            store_16((half_bits *)p->h + (w->first + r) * p->h_pitch + column0 + c,
                     *(const uint4 *)(out + r * OUT_PITCH + c * 2));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL(const __grid_constant__ att_moe_params params) {
    extern __shared__ __align__(128) char shared[];
    const att_moe_params *p = &params;
    wait_for_previous_kernel();
    allow_next_kernel();
    tile_work w;
    if (!find_work(&w, p, p->up_steps, blockIdx.x))
        return;
    const half_bits **rows = (const half_bits **)(shared + ROWS_AT);
    point_rows(p, &w, rows);
    const bool by_turns = p->flags & ATT_MOE_GATED && p->gate == ATT_MOE_GATE_BY_TURNS;
    const bool by_eights = p->flags & ATT_MOE_GATED && !by_turns;
    const tile_operands o = {rows,
                             (const half_bits *)p->h,
                             p->hidden,
                             (p->flags & ATT_MOE_VECTOR_X) != 0,
                             (p->flags & ATT_MOE_VECTOR_W1) != 0,
                             (p->flags & ATT_MOE_KN) != 0,
                             p->w1.row,
                             by_eights && p->gate == ATT_MOE_GATE_APART ? p->w3.row : p->w1.row,
                             (p->inner - w.step * p->up_columns) * (by_turns ? 2 : 1),
                             by_eights ? 2 : 1};
    float sum[M_TILES][N_TILES][4];
    multiply(sum, &o, shared_address(shared));
    if (!(p->flags & ATT_MOE_GATED))
        put_without_gate(p, &w, sum, shared);
    else if (by_turns)
        put_by_turns(p, &w, sum, shared);
    else
        put_by_eights(p, &w, sum, shared);
    __syncthreads();
    store_h(p, &w, shared);
}
