/* bwd_sm80_scores.cuh: from products to weights and their gradients. */
#ifndef ATT_BWD_SM80_SCORES_CUH
#define ATT_BWD_SM80_SCORES_CUH

#include "kernels/bwd_sm80_work.cuh"
#include "kernels/fwd_scores.cuh"

/* The key of half `half` of key tile m in this lane, relative to the block's first key. */
DEVICE int key_of(int key_group, int m, int half) {
    return key_group * WARP_KEYS + m * 16 + half * 8 + (int)(threadIdx.x % 32) / 4;
}

/* Turn products into weights, and dP into the gradients of the products. */
DEVICE void weigh(const att_bwd_params *p, int row0, const char *rows, float s[K_TILES][C_TILES][4],
                  float dp[K_TILES][C_TILES][4]) {
#pragma unroll
    for (int n = 0; n < C_TILES; n++) {
        const float *terms = (const float *)rows + term_of(row0 + n * 8 + threadIdx.x % 4 * 2);
        const float2 lses = *(const float2 *)terms, deltas = *(const float2 *)(terms + ATT_BWD_TERM_ROWS);
#pragma unroll
        for (int m = 0; m < K_TILES; m++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float lse = e % 2 ? lses.y : lses.x, delta = e % 2 ? deltas.y : deltas.x;
                s[m][n][e] = exp2_fast(fmaf(s[m][n][e], p->fwd.scale_log2, -lse));
                dp[m][n][e] = s[m][n][e] * (dp[m][n][e] - delta);
            }
    }
}

/* Zero the weights and gradients of keys that a row does not see. */
DEVICE void hide(const att_bwd_params *p, const block_work *w, row_step at, int key_group, int row0,
                 float s[K_TILES][C_TILES][4], float dp[K_TILES][C_TILES][4]) {
    const int i0 = at.tile * TILE_M + row0 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int m = 0; m < K_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int j = w->key0 + key_of(key_group, m, half), from = first_row_of_key(&p->fwd, &w->s, j) - i0;
            const int to = j < w->s.len_k ? last_row_of_key(&p->fwd, &w->s, j) - i0 : from;
#pragma unroll
            for (int n = 0; n < C_TILES; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (8 * n + e < from || 8 * n + e >= to)
                        s[m][n][2 * half + e] = dp[m][n][2 * half + e] = 0.0f;
        }
}

/* weigh() and hide() for problems with any feature. Returns the sum of the score gradients
 * times their distances from the diagonal. */
DEVICE float weigh_features(const att_bwd_params *p, const block_work *w, row_step at, int key_group, int row0,
                            const char *rows, float s[K_TILES][C_TILES][4], float dp[K_TILES][C_TILES][4]) {
    const att_fwd_params *f = &p->fwd;
    const float slope = slope_of(f, w->s.batch, at.head);
    float sum = 0.0f;
#pragma unroll
    for (int m = 0; m < K_TILES; m++)
#pragma unroll
        for (int n = 0; n < C_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int j = w->key0 + key_of(key_group, m, e / 2), r = row0 + n * 8 + threadIdx.x % 4 * 2 + e % 2;
                const int i = at.tile * TILE_M + r;
                float weight = 0.0f, grad = 0.0f;
                if (i < w->s.len_q && j >= visible_lo(f, &w->s, i) && j < visible_hi(f, &w->s, i)) {
                    const float bias = bias_at(f, &w->s, at.head, i, j), distance = fabsf((float)(i + w->s.shift - j));
                    const float bent = f->softcap > 0.0f ? tanhf(s[m][n][e] * f->scale_log2) : 0.0f;
                    const float capped = f->softcap > 0.0f ? f->softcap * bent : s[m][n][e] * f->scale;
                    const float *terms = (const float *)rows + term_of(r);
                    if (bias != -INFINITE && terms[0] != INFINITE) {
                        weight = exp2_fast(fmaf(capped - slope * distance + bias, LOG2_E, -terms[0]));
                        grad = weight * (dp[m][n][e] - terms[ATT_BWD_TERM_ROWS]);
                        sum = fmaf(grad, distance, sum);
                        grad *= (1.0f - bent) * (1.0f + bent);
                    }
                }
                s[m][n][e] = weight;
                dp[m][n][e] = grad;
            }
    return sum;
}

#endif
