/* bwd_sm90_finish.cuh: the last step after bwd_sm90 and bwd_sm90_wide: the tiles of rows that
 * they have not finished, and whatever is not finite. */
#ifndef ATT_BWD_SM90_FINISH_CUH
#define ATT_BWD_SM90_FINISH_CUH

#include "kernels/bwd_second_look.cuh"
#include "kernels/bwd_sm90_rows.cuh"

static_assert(32 * WARPS == ROWS_THREADS, "as many as the warpgroups that made the sums");

/* Recompute the rows of a tile that was marked as not finite, one row per warp. */
DEVICE void look_at_rows(const att_bwd_params *p, const row_tile *t) {
    if (!(__ldcg(p->turns + first_sum(p, t)) & TURNS_LOST))
        return;
#pragma unroll 1
    for (int r = (int)threadIdx.x / 32; r < t->rows; r += WARPS)
        look_at_query(p, &t->s, t->head, t->tile * TILE_M + r, 0, p->fwd.d_qk);
}

/* Recompute the keys that were marked as not finite, spread over all blocks. */
DEVICE void look_at_keys(const att_bwd_params *p) {
    enum { PARTS = TILE_N / NOTED_KEYS };
    const int count = p->fwd.batch * p->fwd.heads_kv * p->key_tiles * PARTS;
#pragma unroll 1
    for (int note = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32; note < count;
         note += (int)gridDim.x * WARPS) {
        const int item = note / PARTS, unit = item / p->key_tiles,
                  batch = unit / p->fwd.heads_kv, kv_head = unit % p->fwd.heads_kv;
        if (!*lost_keys(p, batch, kv_head, item % p->key_tiles, note % PARTS))
            continue;
        const sequence s = sequence_of(&p->fwd, batch);
        const int key0 = item % p->key_tiles * TILE_N + note % PARTS * NOTED_KEYS;
        for (int j = key0; j < min(key0 + NOTED_KEYS, s.len_k); j++)
            look_at_key(p, &s, kv_head, j, true, true);
    }
}

/* `rounded` has TILE_M * ROWS_PITCH elements of shared memory. */
DEVICE void finish(const att_bwd_params *p, half_bits *rounded) {
    const int finished = (int)min(p->next_work[NEXT_ROWS], (unsigned)row_tile_count(p));
#pragma unroll 1
    for (int number = (int)blockIdx.x; number < row_tile_count(p); number += (int)gridDim.x) {
        const row_tile t = row_tile_of(p, number);
        if (t.rows <= 0)
            continue;
        if (number >= finished) {
            finish_tile(p, &t, rounded, (int)threadIdx.x);
            __threadfence();
            __syncthreads();
        }
        look_at_rows(p, &t);
    }
    look_at_keys(p);
}

#endif
