/* amx_body.h: the weights of a tile on AMX, interleaved with its products, and the sums.
 *
 * Weights are stored as the tiles that P V multiplies, in as many bfloat16 parts as the inputs
 * have. */
#ifndef ATT_CPU_MATMUL_BODY_H
#define ATT_CPU_MATMUL_BODY_H

#include "attention/cpu/amx_product_body.h"
#include "attention/cpu/known_top_body.h"

static void tile_fold(const tile *t, const strip *st, int64_t r) {
    if (st->first)
        return; /* the sums are already in o */
    float *o = t->o + (st->row0 + r) * t->o_stride;
    const float *sums = t->sums + r * t->o_stride;
    for (int64_t x = 0; x < t->o_stride; x += 2 * VF_W) {
        vf_store(o + x, vf_add(vf_load(o + x), vf_load(sums + x)));
        vf_store(o + x + VF_W, vf_add(vf_load(o + x + VF_W), vf_load(sums + x + VF_W)));
    }
}

/* Weights x .. x+31 of a row fill one row of a tile; `row` is that row in the first tile. */
VF_INLINE char *weights_at(void *row, int64_t x, const int parts) {
    return (char *)row + x / DEPTH * parts * AMX_TILE_BYTES;
}

VF_INLINE void store_bf16(void *row, int64_t x, vf p0, vf p1) {
    _mm512_store_si512(weights_at(row, x, 1), (__m512i)_mm512_cvtne2ps_pbh(p1, p0));
}

VF_INLINE void store_parts(void *row, int64_t x, vf p0, vf p1, const int parts) {
    char *to = weights_at(row, x, parts);
    __m512i part[3];
    cut(p0, p1, parts, part);
    for (int i = 0; i < parts; i++)
        _mm512_store_si512(to + i * AMX_TILE_BYTES, part[i]);
}

VF_INLINE void store_two(void *row, int64_t x, vf p0, vf p1) {
    store_parts(row, x, p0, p1, 2);
}

VF_INLINE void store_three(void *row, int64_t x, vf p0, vf p1) {
    store_parts(row, x, p0, p1, 3);
}

/* A row of bfloat16 weights being computed, and the product whose steps are interleaved. */
typedef struct weaving {
    const float *s;
    void *to;
    vf factor, offset; /* a weight is exp2(s * factor + offset) */
    vf sum[2];
    product *between;
} weaving;

VF_INLINE vf weave_vector(const weaving *w, int64_t x) {
    return vf_exp2(vf_fma(vf_load(w->s + x), w->factor, w->offset), BF16_DEGREE);
}

VF_INLINE void weave_store(weaving *w, int64_t x, vf p0, vf p1) {
    w->sum[0] = vf_add(w->sum[0], p0);
    w->sum[1] = vf_add(w->sum[1], p1);
    store_bf16(w->to, x, p0, p1);
}

/* Two vectors of weights, with operation `op` of a step before them and, if `two`, the next one
 * between them. */
VF_INLINE void weave_pair(weaving *w, int64_t x, const bool resident, const int op,
                          const bool two) {
    product_op(w->between, op, resident);
    const vf p0 = weave_vector(w, x);
    if (two)
        product_op(w->between, op + 1, resident);
    const vf p1 = weave_vector(w, x + VF_W);
    weave_store(w, x, p0, p1);
}

/* Four pairs with two operations each, from `op` on, or with one. */
VF_INLINE void weave_four(weaving *w, int64_t x, const bool resident, const int op,
                          const bool two) {
    const int ops = two ? 2 : 1;
    weave_pair(w, x, resident, op, two);
    weave_pair(w, x + 2 * VF_W, resident, op + ops, two);
    weave_pair(w, x + 4 * VF_W, resident, op + 2 * ops, two);
    weave_pair(w, x + 6 * VF_W, resident, op + 3 * ops, two);
}

enum { WEAVE_DENSE = 8 * VF_W, WEAVE_SPARSE = 16 * VF_W };

/* A step of the product and the weights of WEAVE_DENSE or WEAVE_SPARSE keys. */
VF_INLINE void weave_step(weaving *w, int64_t x, const bool resident, const bool sparse) {
    if (sparse) {
        weave_four(w, x, resident, 0, false);
        weave_four(w, x + WEAVE_DENSE, resident, 4, false);
    } else {
        weave_four(w, x, resident, 0, true);
    }
}

/* Weights of s[from..to) with `steps` of the product interleaved. On a tile unit that is shared
 * or throttled, instructions take 1.5 to 2 times as long back to back as with others in
 * between. */
VF_INLINE void weave_row(weaving *w, int64_t from, int64_t to, int64_t steps) {
    int64_t x = from;
    for (; steps * WEAVE_DENSE > to - from; steps--)
        product_step(w->between);
    for (; steps > 0; steps--) {
        const bool sparse = to - x >= WEAVE_SPARSE * steps;
        product_follow(w->between);
        if (sparse && w->between->resident)
            weave_step(w, x, true, true);
        else if (sparse)
            weave_step(w, x, false, true);
        else if (w->between->resident)
            weave_step(w, x, true, false);
        else
            weave_step(w, x, false, false);
        x += sparse ? WEAVE_SPARSE : WEAVE_DENSE;
    }
    for (; x < to; x += 2 * VF_W)
        weave_store(w, x, weave_vector(w, x), weave_vector(w, x + VF_W));
}

/* Weigh a row with its current maximum, interleaving `steps` of a product. Returns false if the
 * maximum must be raised first, or the offset is too large. */
VF_INLINE bool weigh_woven(const tile *t, row_state *row, const float *s, void *row_to,
                           int64_t from, int64_t to, product *between, int64_t steps) {
    weaving w = {.s = s, .to = row_to, .factor = vf_set1(t->factor), .between = between};
    const float offset = -row->base * t->factor;
    if (!(fabsf(offset) < OFFSET_MOST)) {
        product_steps(between, steps);
        return false;
    }
    w.offset = vf_set1(offset);
    w.sum[0] = w.sum[1] = vf_set1(0.0f);
    weave_row(&w, from, to, steps);
    const vf sum = vf_add(w.sum[0], w.sum[1]);
    if (!vf_all_at_most(sum, LANE_SUM_MOST))
        return false;
    vf_store(row->sum, vf_add(vf_load(row->sum), sum));
    return true;
}

VF_INLINE void tile_weigh(const tile *t, row_state *row, const strip *st, int64_t r,
                          int64_t from, int64_t to, product *between, int64_t steps) {
    const float *s = t->s[st->slot] + r * TILE_KEYS;
    const int parts = parts_of(t->job->p->dtype);
    const bool fine = weights_are_fine(t->job->p);
    void *row_to = t->p[st->slot] + r / SIDE * (TILE_KEYS / DEPTH) * parts * AMX_TILE_BYTES +
                   r % SIDE * AMX_ROW_BYTES;
    float *o = t->o + (st->row0 + r) * t->o_stride;
    if (parts == 1 && !fine) {
        if (row->top == -INFINITY)
            keep_max(row, s, from, to, t->factor, o, t->o_stride);
        if (__builtin_expect(weigh_woven(t, row, s, row_to, from, to, between, steps), 1))
            return;
    } else {
        product_steps(between, steps);
    }
    keep_max(row, s, from, to, t->factor, o, t->o_stride);
    if (parts == 1 && !fine)
        weigh_row(row, s, from, to, t->factor, BF16_DEGREE, store_bf16, row_to);
    else if (parts == 1)
        weigh_row(row, s, from, to, t->factor, 5, store_bf16, row_to);
    else if (parts == 2 && !fine)
        weigh_row(row, s, from, to, t->factor, 4, store_two, row_to);
    else if (parts == 2)
        weigh_row(row, s, from, to, t->factor, 5, store_two, row_to);
    else
        weigh_row(row, s, from, to, t->factor, 5, store_three, row_to);
}

#endif
