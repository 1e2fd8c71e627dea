/* fwd_sm90_parts.cuh: where the parts of rows are stored if their keys are split (ROLE SPLIT):
 * float32 rows in the order of fwd_params.h. */
#ifndef ATT_FWD_SM90_PARTS_CUH
#define ATT_FWD_SM90_PARTS_CUH

#include "kernels/fwd_sm90_work.cuh"
#include "kernels/math.cuh"

/* The index of the tile's first row among the rows of all parts. */
DEVICE long long first_part_row(const att_fwd_sm90_params *p, const tile_work *w) {
    const att_fwd_params *f = &p->fwd;
    const long long entry = (long long)w->part * f->batch + w->s.batch;
    return (entry * f->heads_q + (w->head << p->pack)) * f->seq_q + (w->row0 >> p->pack);
}

/* The distance in rows of a part from the tile's first row to its row r. */
DEVICE long long part_row_offset(const att_fwd_sm90_params *p, int r) {
    return (r >> p->pack) + (long long)(r & ((1 << p->pack) - 1)) * p->fwd.seq_q;
}

/* Store top and sum of row `index` of the parts. A top of -inf marks a row as empty. */
DEVICE void store_part_sum(float *sums, long long index, float top, float sum) {
    *(float2 *)(sums + 2 * index) = make_float2(top, sum);
}

/* Store a part without keys. Called by a warp. */
DEVICE void store_empty_part(const att_fwd_sm90_params *p, const tile_work *w) {
    const long long first = first_part_row(p, w);
#pragma unroll 1
    for (int r = (int)threadIdx.x % 32; r < min(TILE_M, w->rows - w->row0); r += 32)
        store_part_sum(p->fwd.partial_sums, first + part_row_offset(p, r), -INFINITE, 0.0f);
}

#endif
