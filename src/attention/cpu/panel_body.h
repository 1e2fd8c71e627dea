/* panel_body.h: the two products of a tile with vector instructions, over the vf of the
 * including file.
 *
 * Operands are words of 32 bits: a float32, or a pair of 16-bit numbers that are consecutive
 * along the summed dimension. K is transposed into panels of PANEL keys ([panel][words of
 * d_qk][PANEL]), V into panels of PANEL columns ([panel][words of keys][PANEL]), so that both
 * have the same inner loop: MR broadcast rows times NV vectors, held in MR * NV registers.
 *
 *          panel: NV vectors
 *         +-----------------+
 *     a   |  b[k][0..PANEL) |   k
 *   +---+ +-----------------+
 *   |   | |                 |
 *   |MR | |  c[MR][PANEL)   |   += a[r][k] * b[k]
 *   +---+ +-----------------+
 *
 * The including file provides
 *   NV                vectors per panel, to fill its register file
 *   WORD_ELEMENTS     numbers per word
 *   PANEL_STRIPS      maximum strips per task
 *   TILE_KEYS         keys per block
 *   panel_multiply    sum + left * right, lane by lane, all numbers of a word
 *   panel_weights     words of the weights of row r of a strip, from key j on */
#ifndef ATT_CPU_PANEL_BODY_H
#define ATT_CPU_PANEL_BODY_H

#include "attention/cpu/tile.h"

enum { MR = 6, PANEL = NV * VF_W };
enum {
    TILE_STRIP = 4 * MR,
    TILE_ROWS = PANEL_STRIPS * TILE_STRIP,
    TILE_STEP = 2 * VF_W,
    TILE_PACK = VF_W,
    KEY_WORDS = TILE_KEYS / WORD_ELEMENTS
};
_Static_assert(TILE_KEYS % PANEL == 0, "a block of keys is whole panels");
_Static_assert(PANEL % TILE_STEP == 0, "a panel is whole steps of the softmax");
_Static_assert(TILE_PACK % WORD_ELEMENTS == 0, "keys are packed in whole words");

static vf panel_multiply(vf left, vf right, vf sum);
static const float *panel_weights(const tile *t, const strip *st, int64_t r, int64_t j);

static inline int64_t words_of(int64_t elements) {
    return att_ceil_div(elements, WORD_ELEMENTS);
}

static size_t tile_q_bytes(const att_problem *p, int64_t rows) {
    return (size_t)(rows * words_of(p->d_qk)) * sizeof(float);
}
static size_t tile_k_bytes(const att_problem *p) {
    return (size_t)(TILE_KEYS * words_of(p->d_qk)) * sizeof(float);
}
static size_t tile_v_bytes(const att_problem *p) {
    return (size_t)(KEY_WORDS * att_round_up(p->d_v, PANEL)) * sizeof(float);
}
static size_t tile_sums_bytes(const att_problem *p) {
    (void)p; /* added directly to the accumulator */
    return 0;
}
static int64_t tile_o_stride(const att_problem *p) {
    return att_round_up(p->d_v, PANEL);
}

/* c[MR][nv vectors] (+)= a[MR][depth] * b[depth][PANEL]; nv is a constant once inlined. */
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
                sum[r][v] = panel_multiply(left, right[v], sum[r][v]);
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

/* There is no second unit to keep busy, so a step is a whole panel. */
typedef struct product {
    const tile *t;
    strip st;
    bool scores; /* S = Q K^T, or P V */
    int64_t at;  /* first key or column of the next panel */
    int64_t left;
    const struct product *then; /* the next product when nothing is left */
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
    const int64_t d = words_of(t->job->p->d_qk), to = att_min(from + PANEL, st->to);
    const float *panel = (const float *)t->k + from * d;
    for (int64_t r = 0; r < st->rows; r += MR)
        multiply(false, to - from, d, (const float *)t->q + (st->row0 + r) * d, d, panel,
                 t->s[st->slot] + r * TILE_KEYS + from, TILE_KEYS);
}

static void sums_panel(const tile *t, const strip *st, int64_t x) {
    const float *panel = (const float *)t->v + x * KEY_WORDS + st->from / WORD_ELEMENTS * PANEL;
    for (int64_t r = 0; r < st->rows; r += MR) {
        const float *weights = panel_weights(t, st, r, st->from);
        float *o = t->o + (st->row0 + r) * t->o_stride + x;
        if (st->first)
            multiply(false, t->job->p->d_v - x, words_of(st->end - st->from), weights,
                     KEY_WORDS, panel, o, t->o_stride);
        else
            multiply(true, t->job->p->d_v - x, words_of(st->end - st->from), weights, KEY_WORDS,
                     panel, o, t->o_stride);
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

#endif
