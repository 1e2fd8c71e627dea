/* bwd_sm80_keys.cuh: stores dK and dV of bwd_sm80. */
#ifndef ATT_BWD_SM80_KEYS_CUH
#define ATT_BWD_SM80_KEYS_CUH

#include "kernels/bwd_second_look.cuh"
#include "kernels/bwd_sm80_scores.cuh"
#include "kernels/bwd_store.cuh"
#include "kernels/reduce.cuh"

/* Store `tiles` results of dK or dV, from tile `first` on, times `scale`; they begin at column
 * `column0`. Returns the set of this lane's keys, as bits 2 * m + row, that are not finite. */
DEVICE unsigned store_keys(const att_bwd_params *p, const block_work *w, float sum[K_TILES][SUM_TILES][4], int first,
                           int tiles, int key_group, int column0, void *base, const att_fwd_strides *stride, int d,
                           float scale) {
    unsigned bad = 0;
#pragma unroll
    for (int m = 0; m < K_TILES; m++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const int j = w->key0 + key_of(key_group, m, row);
            const long long at = key_offset(&p->fwd, &w->s, stride, w->head_kv, j);
            float check = 0.0f;
#pragma unroll
            for (int n = 0; n < tiles; n++) {
                const float x = sum[m][first + n][2 * row] * scale, y = sum[m][first + n][2 * row + 1] * scale;
                if (j < w->s.len_k)
                    store_pair(p, base, at, column0 + n * 8 + threadIdx.x % 4 * 2, d, x, y);
                check = fmaf(x, 0.0f, fmaf(y, 0.0f, check));
            }
            if (!(quad_sum(check) == 0.0f) && j < w->s.len_k)
                bad |= 1u << (2 * m + row);
        }
    return bad;
}

/* Recompute this warp's columns of those of its keys for which any lane has a bit in `bad`. */
DEVICE void repair_keys(const att_bwd_params *p, const block_work *w, unsigned bad, int key_group, int half) {
    const key_columns own = {half * QK_TILES * 8, QK_TILES * 8, half * V_TILES * 8, V_TILES * 8};
    __syncwarp();
#pragma unroll 1
    for (int bit = 0; bit < 2 * K_TILES; bit++) {
        /* One vote per quad of lanes, which share a key. */
        unsigned votes = __ballot_sync(0xffffffffu, bad >> bit & 1) & 0x11111111u;
#pragma unroll 1
        for (; votes; votes &= votes - 1)
            look_at_columns(p, &w->s, w->head_kv, w->key0 + key_group * WARP_KEYS + bit * 8 + (__ffs(votes) - 1) / 4,
                            own);
    }
}

/* Clear the stored keys of this tile that are before the start or past the length: no row sees
 * them. */
DEVICE void clear_unused_keys(const att_bwd_params *p, const block_work *w) {
    const att_fwd_params *f = &p->fwd;
    const int stored = stored_keys(f, w->s.batch);
    for (int r = threadIdx.x / 8; r < TILE_N; r += THREADS / 8) {
        const int key = w->key0 + r, j = key - w->s.first_k;
        if (key >= stored || (j >= 0 && j < w->s.len_k))
            continue;
        const long long k = key_offset(f, &w->s, &p->d_k_stride, w->head_kv, j);
        const long long v = key_offset(f, &w->s, &p->d_v_stride, w->head_kv, j);
        for (int c = threadIdx.x % 8; c < f->d_qk; c += 8)
            store_from_float(p->d_k, k + c, p->dtype_grad, 0.0f);
        for (int c = threadIdx.x % 8; c < f->d_v; c += 8)
            store_from_float(p->d_v, v + c, p->dtype_grad, 0.0f);
    }
}

#endif
