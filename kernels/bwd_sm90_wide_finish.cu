/* bwd_sm90_wide_finish.cu: the last step after bwd_sm90_wide
 * COMPUTES d_q of the tiles of TILE_M rows that no block of bwd_sm90_wide has finished; and, in
 *          float64, the d_q, d_k and d_v of tiles and keys that are not finite. A block takes
 *          one tile after another
 * THREADS  256: each thread has the same elements as a thread of the two consumer warpgroups
 * SMEM     a rounded tile, from which rows are stored 16 bytes at a time
 * NUMERICS float32; float64 for results that are not finite
 * LIMITS   d_qk <= D_QK, rows of d_q at multiples of 16 bytes
 * WHY      bound by memory: all of a thread's loads are in flight at once */
#include "kernels/bwd_second_look.cuh"
#include "kernels/bwd_sm90_wide_rows.cuh"
#include "kernels/programmatic_launch.cuh"

static_assert(32 * WARPS == ROWS_THREADS, "as many as the warpgroups that made the sums");

/* Recompute the rows of a tile that was marked as not finite, one row per warp. */
DEVICE void look_at_rows(const att_bwd_params *p, const row_tile *t) {
    if (!(__ldcg(p->turns + first_sum(p, t)) & TURNS_LOST))
        return;
#pragma unroll 1
    for (int r = (int)threadIdx.x / 32; r < t->rows; r += WARPS)
        look_at_query(p, &t->s, t->head, t->tile * TILE_M + r, 0, p->fwd.d_qk);
}

/* Recompute the keys that bwd_sm90_wide marked, spread over all blocks. */
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

#define BLOCKS_PER_SM (D_QK > 192 ? 1 : 2) /* as many as registers allow */

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS_PER_SM)
    KERNEL(const __grid_constant__ att_bwd_params params) {
    __shared__ __align__(16) half_bits rounded[TILE_M * ROWS_PITCH];
    const att_bwd_params *p = &params;
    if (USE_EARLY_LAUNCH)
        allow_next_kernel();
    wait_for_previous_kernel();
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
