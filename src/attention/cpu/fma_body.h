/* fma_body.h: the two products of a tile by fused multiply-add, over the includer's vf.
 *
 * Everything is widened to float32 when it is packed. K is transposed into panels of PANEL keys
 * ([panel][d_qk][PANEL]), V into panels of PANEL columns ([panel][key][PANEL]), so that the
 * inner loop of both is the same: MR broadcast rows times NV vectors, held in MR * NV
 * registers.
 *
 *          panel: NV vectors
 *         +-----------------+
 *     a   |  b[k][0..PANEL) |   k
 *   +---+ +-----------------+
 *   |   | |                 |
 *   |MR | |  c[MR][PANEL)   |   += a[r][k] * b[k]
 *   +---+ +-----------------+   */
#ifndef ATT_CPU_MATMUL_BODY_H
#define ATT_CPU_MATMUL_BODY_H

#include <string.h>

#include "attention/cpu/tile.h"

/* The including file sets NV, the vectors of a panel, to fill its register file. */
enum { MR = 6, PANEL = NV * VF_W };
enum {
    TILE_STRIP = 4 * MR,
    TILE_ROWS = 8 * TILE_STRIP,
    TILE_KEYS = 128,
    TILE_STEP = 2 * VF_W,
    TILE_PACK = VF_W
};
_Static_assert(TILE_KEYS % PANEL == 0, "a block of keys is whole panels");
_Static_assert(PANEL % TILE_STEP == 0, "a panel is whole steps of the softmax");

static size_t tile_q_bytes(const att_problem *p, int64_t rows) {
    return (size_t)(rows * p->d_qk) * sizeof(float);
}
static size_t tile_k_bytes(const att_problem *p) {
    return (size_t)(TILE_KEYS * p->d_qk) * sizeof(float);
}
static size_t tile_v_bytes(const att_problem *p) {
    return (size_t)(TILE_KEYS * att_round_up(p->d_v, PANEL)) * sizeof(float);
}
static size_t tile_p_bytes(const att_problem *p) {
    (void)p; /* the weights replace the scores */
    return 0;
}
static size_t tile_sums_bytes(const att_problem *p) {
    (void)p; /* added to the accumulator at once */
    return 0;
}
static int64_t tile_o_stride(const att_problem *p) {
    return att_round_up(p->d_v, PANEL);
}

VF_INLINE void pack_q_as(const tile *t, const att_dtype dtype) {
    const int64_t d = t->job->p->d_qk, bytes = att_dtype_bytes(dtype);
    float *to = (float *)t->q;
    for (int64_t r = 0; r < t->task.rows; r++, to += d) {
        const char *from = tile_q_row(t, r);
        for (int64_t x = 0; x < d; x += VF_W)
            vf_store_as(to + x, ATT_F32, vf_load_as(from + x * bytes, dtype, d - x), d - x);
    }
    memset(to, 0, (size_t)(t->padded_rows - t->task.rows) * (size_t)d * sizeof(float));
}

VF_INLINE void pack_k_as(const tile *t, int64_t from, int64_t until, const att_dtype dtype) {
    const int64_t d = t->job->p->d_qk, bytes = att_dtype_bytes(dtype);
    const char **rows = t->now->rows_k;
    for (int64_t j = from; j < until; j += VF_W) {
        float *to = (float *)t->k + j / PANEL * PANEL * d + j % PANEL;
        for (int64_t x = 0; x < d; x += VF_W) {
            vf block[VF_W];
            for (int i = 0; i < VF_W; i++)
                block[i] = j + i < until ? vf_load_as(rows[j + i] + x * bytes, dtype, d - x)
                                         : vf_set1(0.0f);
            vf_transpose(block);
            for (int64_t i = 0; i < VF_W && x + i < d; i++)
                vf_store(to + (x + i) * PANEL, block[i]);
        }
    }
}

VF_INLINE void pack_v_as(const tile *t, int64_t from, int64_t until, const att_dtype dtype) {
    const int64_t d = t->job->p->d_v, bytes = att_dtype_bytes(dtype);
    const char **rows = t->now->rows_v;
    for (int64_t j = from; j < until; j++) {
        for (int64_t x = 0; x < tile_o_stride(t->job->p); x += VF_W) {
            float *to = (float *)t->v + x / PANEL * PANEL * TILE_KEYS + j * PANEL + x % PANEL;
            vf_store(to, x < d ? vf_load_as(rows[j] + x * bytes, dtype, d - x) : vf_set1(0.0f));
        }
    }
}

/* c[MR][nv vectors] (+)= a[MR][depth] * b[depth][PANEL]; nv is a constant where this is
 * inlined. */
VF_INLINE void multiply_nv(const int nv, const bool add, int64_t depth, const float *a,
                           int64_t lda, const float *b, float *c, int64_t ldc) {
    vf sum[MR][NV];
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = add ? vf_load(c + r * ldc + v * VF_W) : vf_set1(0.0f);
    for (int64_t k = 0; k < depth; k++, b += PANEL) {
        vf right[NV];
        for (int v = 0; v < nv; v++)
            right[v] = vf_load(b + v * VF_W);
        for (int r = 0; r < MR; r++) {
            const vf left = vf_set1(a[r * lda + k]);
            for (int v = 0; v < nv; v++)
                sum[r][v] = vf_muladd(left, right[v], sum[r][v]);
        }
    }
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nv; v++)
            vf_store(c + r * ldc + v * VF_W, sum[r][v]);
}

/* The same for the first `width` columns of the panel, rounded up to whole steps. */
VF_INLINE void multiply(const bool add, int64_t width, int64_t depth, const float *a,
                        int64_t lda, const float *b, float *c, int64_t ldc) {
    if (NV > 2 && width <= 2 * VF_W)
        multiply_nv(2, add, depth, a, lda, b, c, ldc);
    else
        multiply_nv(NV, add, depth, a, lda, b, c, ldc);
}

/* There is no second unit to keep busy: a step is a whole panel. */
typedef struct product {
    const tile *t;
    strip st;
    bool scores; /* S = Q K^T, or P V */
    int64_t at;  /* first key or column of the next panel */
    int64_t left;
    const struct product *then; /* what follows when nothing is left */
} product;

static product tile_scores(const tile *t, const strip *st) {
    const int64_t first = st->from / PANEL, panels = att_ceil_div(st->to, PANEL) - first;
    return (product){
        .t = t, .st = *st, .scores = true, .at = first * PANEL, .left = st->rows ? panels : 0};
}

static product tile_sums(const tile *t, const strip *st) {
    return (product){
        .t = t, .st = *st, .left = st->rows ? att_ceil_div(t->job->p->d_v, PANEL) : 0};
}

static void scores_panel(const tile *t, const strip *st, int64_t from) {
    const int64_t d = t->job->p->d_qk, to = att_min(from + PANEL, st->to);
    const float *panel = (const float *)t->k + from * d;
    for (int64_t r = 0; r < st->rows; r += MR)
        multiply(false, to - from, d, (const float *)t->q + (st->row0 + r) * d, d, panel,
                 t->s[st->slot] + r * TILE_KEYS + from, TILE_KEYS);
}

static void sums_panel(const tile *t, const strip *st, int64_t x) {
    const float *panel = (const float *)t->v + x * TILE_KEYS + st->from * PANEL;
    for (int64_t r = 0; r < st->rows; r += MR) {
        const float *weights = t->s[st->slot] + r * TILE_KEYS + st->from;
        float *o = t->o + (st->row0 + r) * t->o_stride + x;
        if (st->first)
            multiply(false, t->job->p->d_v - x, st->end - st->from, weights, TILE_KEYS, panel,
                     o, t->o_stride);
        else
            multiply(true, t->job->p->d_v - x, st->end - st->from, weights, TILE_KEYS, panel, o,
                     t->o_stride);
    }
}

static void product_step(product *p) {
    if (p->left == 0)
        *p = *p->then;
    if (p->scores)
        scores_panel(p->t, &p->st, p->at);
    else
        sums_panel(p->t, &p->st, p->at);
    p->at += PANEL;
    p->left--;
}

static void product_steps(product *p, int64_t count) {
    for (; count > 0; count--)
        product_step(p);
}

static void tile_fold(const tile *t, const strip *st, int64_t r) {
    (void)t, (void)st, (void)r; /* added by the products */
}

VF_INLINE void tile_weigh(const tile *t, row_state *row, const strip *st, int64_t r,
                          int64_t from, int64_t to, product *between, int64_t steps) {
    float *s = t->s[st->slot] + r * TILE_KEYS;
    product_steps(between, steps);
    keep_max(row, s, from, to, t->factor, t->o + (st->row0 + r) * t->o_stride, t->o_stride);
    weigh_row(row, s, from, to, t->factor, 5, store_in_place, s);
}

#endif
