/* bwd_sm80_queries.cuh: dQ of bwd_sm80: pieces of dS K, added in the order of the key tiles. */
#ifndef ATT_BWD_SM80_QUERIES_CUH
#define ATT_BWD_SM80_QUERIES_CUH

#include "kernels/bwd_second_look.cuh"
#include "kernels/bwd_sm80_products.cuh"
#include "kernels/bwd_store.cuh"
#include "kernels/bwd_turns.cuh"
#include "kernels/switches_bwd.cuh"

/* dQ of a step: add this warp's piece of dS K to the sum of the earlier key tiles. `ds` is the
 * address of the step's dS. The result is nonzero if something that was written is not
 * finite. */
DEVICE float add_query_gradient(const att_bwd_params *p, const block_work *w, row_step at, unsigned base, unsigned ds,
                                int piece, unsigned *open_turn) {
    const att_fwd_params *f = &p->fwd;
    const int lane = threadIdx.x % 32, row_piece = piece % DQ_ROW_PIECES * 16 * DQ_M_TILES,
              column0 = piece / DQ_ROW_PIECES * DQ_COLUMNS;
    const int row0 = at.tile * TILE_M, row_last = min(row0 + TILE_M, w->s.len_q) - 1;
    const int first = visible_lo(f, &w->s, row0) / TILE_N, last = (visible_hi(f, &w->s, row_last) - 1) / TILE_N;
    const long long number = tile_number(p, &w->s, at.head, at.tile);
    float *sums = p->d_q_sums + (number * WARPS + piece) * (16 * DQ_M_TILES * DQ_COLUMNS) + lane;
    const unsigned counter = (unsigned)number * WARPS + piece;
    /* Lanes 0-7, 8-15, .. have keys 0-7 of rows 0-7, 0-7 of 8-15, 8-15 of 0-7, 8-15 of 8-15. */
    const unsigned a_row = ds + ds_place(lane % 8 + lane / 16 * 8, row_piece / 8 + lane / 8 % 2);
    const unsigned k_row = base + swizzled(lane % 16, lane / 16, QK_PITCH);
    float check = 0.0f;
#pragma unroll
    for (int pass = 0; pass < DQ_PASSES; pass++) {
        const int step0 = column0 / 16 + pass * (DQ_TILES / 2);
        float q[DQ_M_TILES][DQ_TILES][4];
#pragma unroll
        for (int m = 0; m < DQ_M_TILES; m++)
#pragma unroll
            for (int n = 0; n < DQ_TILES; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    q[m][n][e] = 0.0f;
#pragma unroll
        for (int k = 0; k < TILE_N / 16; k++) {
            unsigned a[DQ_M_TILES][4];
#pragma unroll
            for (int m = 0; m < DQ_M_TILES; m++) /* 16 rows are two chunks: the bits are free */
                ldmatrix_x4_trans(a[m], (a_row ^ m << 5) + k * 16 * TILE_M * 2);
#pragma unroll
            for (int n = 0; n < DQ_TILES; n += 2) {
                unsigned b[4];
                ldmatrix_x4_trans(b, swizzle_step(k_row, step0 + n / 2) + k * 16 * QK_PITCH);
#pragma unroll
                for (int m = 0; m < DQ_M_TILES; m++) {
                    mma_16x8x16(q[m][n], a[m], b[0], b[1]);
                    mma_16x8x16(q[m][n + 1], a[m], b[2], b[3]);
                }
            }
        }
        if (pass == 0 && w->key_tile > first)
            wait_for_turn(p->turns + counter,
                          USE_ORDERED_DQ || w->key_tile == last ? (unsigned)(w->key_tile - first) : 1u);
        float *place = sums + pass * (DQ_M_TILES * DQ_TILES * 4 * 32);
        if (w->key_tile < last) {
#pragma unroll
            for (int m = 0; m < DQ_M_TILES; m++)
#pragma unroll
                for (int n = 0; n < DQ_TILES; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++, place += 32)
                        if (w->key_tile == first)
                            *place = q[m][n][e];
                        else
                            add_in_turn(place, q[m][n][e]);
            *open_turn = counter;
            continue;
        }
#pragma unroll
        for (int m = 0; m < DQ_M_TILES; m++)
#pragma unroll
            for (int n = 0; n < DQ_TILES; n++) {
#pragma unroll
                for (int e = 0; e < 4; e++, place += 32)
                    q[m][n][e] = (w->key_tile > first ? load_in_turn(place) + q[m][n][e] : q[m][n][e]) * f->scale;
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int i = row0 + row_piece + m * 16 + half * 8 + lane / 4;
                    if (i < w->s.len_q) {
                        store_pair(p, p->d_q, query_offset(f, &w->s, &p->d_q_stride, at.head, i),
                                   (step0 + n / 2) * 16 + n % 2 * 8 + lane % 4 * 2, f->d_qk, q[m][n][2 * half],
                                   q[m][n][2 * half + 1]);
                        check = fmaf(q[m][n][2 * half], 0.0f, fmaf(q[m][n][2 * half + 1], 0.0f, check));
                    }
                }
            }
    }
    return check;
}

/* Pass on this warp's turn, if it holds one. */
DEVICE void end_turn(const att_bwd_params *p, unsigned *open_turn) {
    if (*open_turn != NO_TURN)
        pass_turn(p->turns + *open_turn);
    *open_turn = NO_TURN;
}

/* Recompute the rows of dQ that are not finite, among those of this warp's piece for which this
 * block was the last to write. A row whose O, dO or log-sum is not finite has no finite
 * gradient. */
DEVICE void repair_queries(const att_bwd_params *p, const block_work *w, int piece) {
    const att_fwd_params *f = &p->fwd;
    const int lane = threadIdx.x % 32, row_piece = piece % DQ_ROW_PIECES * 16 * DQ_M_TILES,
              column0 = piece / DQ_ROW_PIECES * DQ_COLUMNS;
    __syncwarp();
#pragma unroll 1
    for (int head = w->head_kv * f->group; head < (w->head_kv + 1) * f->group; head++)
#pragma unroll 1
        for (int i0 = w->first * TILE_M; i0 < min(w->last * TILE_M, w->s.len_q); i0 += TILE_M) {
            if ((visible_hi(f, &w->s, min(i0 + TILE_M, w->s.len_q) - 1) - 1) / TILE_N != w->key_tile)
                continue;
#pragma unroll 1
            for (int i = i0 + row_piece; i < min(i0 + row_piece + 16 * DQ_M_TILES, w->s.len_q); i++) {
                const long long d_q = query_offset(f, &w->s, &p->d_q_stride, head, i),
                                o = query_offset(f, &w->s, &f->o_stride, head, i);
                const long long d_o = query_offset(f, &w->s, &p->d_o_stride, head, i);
                const float lse = f->lse[query_offset(f, &w->s, &f->lse_stride, head, i)];
                const bool weighed = fabsf(lse) != INFINITE;
                bool bad = false, lost = lse != lse;
                for (int c = column0 + lane; c < min(column0 + DQ_COLUMNS, f->d_qk); c += 32)
                    bad = bad || !is_finite(load_as_float(p->d_q, d_q + c, p->dtype_grad));
                for (int c = lane; c < f->d_v; c += 32)
                    lost = lost || (weighed && (!is_finite(load_as_float(f->o, o + c, f->dtype_o)) ||
                                                !is_finite(load_as_float(p->d_o, d_o + c, f->dtype_o))));
                if (__any_sync(0xffffffffu, bad) && !__any_sync(0xffffffffu, lost))
                    look_at_query(p, &w->s, head, i, column0, DQ_COLUMNS);
            }
        }
}

#endif
