/* mixture.c: fills and runs the arrays of a mixture of experts and compares them with the
 * oracle. */
#include "tests/support/mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "moe/moe.h"
#include "moe/ref/moe_oracle.h"
#include "moe/ref/moe_ref_route.h"
#include "tests/support/rng.h"

static void fill_rows(guarded *g, att_dtype dtype, int64_t outer, int64_t rows, int64_t cols,
                      int64_t outer_stride, int64_t row_stride, float scale, uint64_t *random) {
    for (int64_t o = 0; o < (outer_stride ? outer : 1) && g->bytes; o++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
                att_store(g->data, dtype, o * outer_stride + r * row_stride + c,
                          scale * rng_signed(random));
}

static void fill_weights(mixture *m, int array, int64_t outputs, int64_t inputs,
                         const att_moe_strides *s, uint64_t *random) {
    const bool transposed = m->p.flags & ATT_MOE_TRANSPOSED;
    fill_rows(&m->array[array], m->p.dtype, m->p.local_experts, transposed ? inputs : outputs,
              transposed ? outputs : inputs, s->expert, s->row, 1.7f / sqrtf((float)inputs),
              random);
}

static void fill_routing(mixture *m, uint64_t *random) {
    const att_moe_problem *p = &m->p;
    const int64_t slots = p->tokens * p->experts_per_token;
    fill_rows(&m->array[MIX_LOGITS], p->dtype_logits, 1, p->tokens, p->experts, 1,
              p->logits_row, 3.0f, random);
    fill_rows(&m->array[MIX_CORRECTION], ATT_F32, 1, 1, p->experts, 1, 0, 0.2f, random);
    memset(m->array[MIX_MASK].data, 1, m->array[MIX_MASK].bytes);
    for (int64_t s = 0; s < slots && m->array[MIX_GIVEN_IDS].bytes; s++) {
        ((int32_t *)(void *)m->array[MIX_GIVEN_IDS].data)[s] =
            (int32_t)rng_below(random, p->experts);
        ((float *)(void *)m->array[MIX_GIVEN_WEIGHTS].data)[s] = rng_signed(random);
    }
}

static void fill(mixture *m, uint64_t seed) {
    const att_moe_problem *p = &m->p;
    uint64_t random = seed + 1;
    fill_rows(&m->array[MIX_X], p->dtype, 1, p->tokens, p->hidden, 1, p->x_row, 1.7f, &random);
    fill_routing(m, &random);
    fill_weights(m, MIX_W1, att_moe_w1_rows(p), p->hidden, &p->w1, &random);
    fill_weights(m, MIX_W2, p->hidden, p->inner, &p->w2, &random);
    fill_weights(m, MIX_W3, p->inner, p->hidden, &p->w3, &random);
    fill_rows(&m->array[MIX_B1], p->dtype_bias, 1, p->local_experts, att_moe_w1_rows(p), 1,
              p->b1_expert, 1.0f, &random);
    fill_rows(&m->array[MIX_B2], p->dtype_bias, 1, p->local_experts, p->hidden, 1, p->b2_expert,
              1.0f, &random);
    fill_rows(&m->array[MIX_B3], p->dtype_bias, 1, p->local_experts, p->inner, 1, p->b3_expert,
              1.0f, &random);
}

void mixture_open(mixture *m, const att_moe_problem *p, uint64_t seed) {
    att_moe_extents e;
    *m = (mixture){.p = *p};
    assert_ok(att_moe_problem_check(p, &e));
    const struct {
        int64_t bytes;
        size_t element;
    } sizes[MIX_ARRAYS] = {
        [MIX_Y] = {e.y, att_dtype_size(p->dtype_y)},
        [MIX_IDS] = {e.ids, 4},
        [MIX_WEIGHTS] = {e.weights, 4},
        [MIX_COUNTS] = {e.counts, 4},
        [MIX_X] = {e.x, att_dtype_size(p->dtype)},
        [MIX_LOGITS] = {e.logits, att_dtype_size(p->dtype_logits)},
        [MIX_W1] = {e.w1, att_dtype_size(p->dtype)},
        [MIX_W2] = {e.w2, att_dtype_size(p->dtype)},
        [MIX_W3] = {e.w3, att_dtype_size(p->dtype)},
        [MIX_B1] = {e.b1, att_dtype_size(p->dtype_bias)},
        [MIX_B2] = {e.b2, att_dtype_size(p->dtype_bias)},
        [MIX_B3] = {e.b3, att_dtype_size(p->dtype_bias)},
        [MIX_CORRECTION] = {e.correction, 4},
        [MIX_MASK] = {e.mask, 1},
        [MIX_GIVEN_IDS] = {e.given_ids, 4},
        [MIX_GIVEN_WEIGHTS] = {e.given_weights, 4},
    };
    void *at[MIX_ARRAYS];
    for (int i = 0; i < MIX_ARRAYS; i++) {
        m->array[i] = guard_open((size_t)sizes[i].bytes, sizes[i].element);
        memset(m->array[i].data, 0xff, m->array[i].bytes);
        at[i] = sizes[i].bytes ? m->array[i].data : NULL;
    }
    fill(m, seed);
    m->args = (att_moe_args){.size = sizeof m->args,
                             .x = at[MIX_X],
                             .logits = at[MIX_LOGITS],
                             .w1 = at[MIX_W1],
                             .w2 = at[MIX_W2],
                             .w3 = at[MIX_W3],
                             .b1 = at[MIX_B1],
                             .b2 = at[MIX_B2],
                             .b3 = at[MIX_B3],
                             .correction = at[MIX_CORRECTION],
                             .mask = at[MIX_MASK],
                             .given_ids = at[MIX_GIVEN_IDS],
                             .given_weights = at[MIX_GIVEN_WEIGHTS],
                             .y = at[MIX_Y],
                             .ids = at[MIX_IDS],
                             .weights = at[MIX_WEIGHTS],
                             .counts = at[MIX_COUNTS],
                             .launch = &m->launch};
}

void mixture_close(mixture *m) {
    for (int i = 0; i < MIX_ARRAYS; i++)
        guard_close(&m->array[i]);
}

void mixture_poison(mixture *m) {
    for (int i = MIX_Y; i <= MIX_COUNTS; i++)
        memset(m->array[i].data, i == MIX_Y || i == MIX_WEIGHTS ? 0xff : 0x7f,
               m->array[i].bytes);
}

att_status mixture_run(mixture *m, att_context *ctx) {
    att_plan *plan;
    const att_status status = att_moe_plan_create(&plan, ctx, &m->p);
    if (status != ATT_OK)
        return status;
    guarded workspace = guard_open(att_plan_workspace(plan), ATT_WORKSPACE_ALIGN);
    memset(workspace.data, 0xff, workspace.bytes);
    mixture_poison(m);
    const att_status ran =
        att_moe_run(plan, &m->args, workspace.bytes ? workspace.data : NULL, NULL);
    assert_true(guard_intact(&workspace));
    guard_close(&workspace);
    att_plan_destroy(plan);
    return ran;
}

/* ------------------------------------------------------------------ comparison */

/* The error from rounding h, y and float32 sums, relative to numbers of size 1. */
static double unit_of(const att_moe_problem *p) {
    const double h = p->dtype == ATT_F32 ? 0x1p-21 : p->dtype == ATT_F16 ? 0x1p-10 : 0x1p-7;
    return 4.0 * h;
}

void mixture_check_token(const mixture *m, int64_t t) {
    const att_moe_problem *p = &m->p;
    const int64_t k = p->experts_per_token;
    double *scratch =
        malloc((size_t)(att_moe_ref_scratch(p) + p->hidden + 2 * k) * sizeof *scratch);
    double *y = scratch + att_moe_ref_scratch(p), *weights = y + p->hidden;
    int32_t *ids = (int32_t *)(void *)(weights + k);
    att_moe_ref_token(p, &m->args, t, scratch, y, ids, weights);
    double largest = 1.0;
    for (int64_t c = 0; c < p->hidden; c++)
        largest = isfinite(y[c]) ? fmax(largest, fabs(y[c])) : largest;
    for (int64_t c = 0; c < p->hidden; c++)
        assert_near((double)mixture_y(m, t, c), y[c], unit_of(p) * largest);
    for (int64_t j = 0; j < k; j++) {
        if (p->features & ATT_MOE_IDS)
            assert_int_equal(mixture_ids(m, t)[j], ids[j]);
        if (p->features & ATT_MOE_WEIGHTS)
            assert_near((double)mixture_weights(m, t)[j], weights[j],
                        0x1p-21 * (1.0 + fabs(weights[j])));
    }
    free(scratch);
}

void mixture_check(const mixture *m) {
    const att_moe_problem *p = &m->p;
    for (int64_t t = 0; t < p->tokens; t++)
        mixture_check_token(m, t);
    if (p->features & ATT_MOE_COUNTS) {
        double *counts = malloc((size_t)(p->experts + 1) * sizeof *counts);
        float *scores = malloc((size_t)p->experts * 2 * sizeof *scores);
        int32_t *ids = malloc((size_t)p->experts_per_token * sizeof *ids);
        att_moe_ref_counts(p, &m->args, scores, ids, counts);
        for (int64_t e = 0; e <= p->experts; e++)
            assert_int_equal(m->args.counts[e], (int64_t)counts[e]);
        free(counts);
        free(scores);
        free(ids);
    }
    for (int i = 0; i < MIX_ARRAYS; i++)
        assert_true(guard_intact(&m->array[i]));
}

/* -------------------------------------------------------------------- elements */

void mixture_set_x(mixture *m, int64_t token, int64_t column, float value) {
    att_store(m->array[MIX_X].data, m->p.dtype, token * m->p.x_row + column, value);
}

void mixture_set_logit(mixture *m, int64_t token, int64_t expert, float value) {
    att_store(m->array[MIX_LOGITS].data, m->p.dtype_logits, token * m->p.logits_row + expert,
              value);
}

float mixture_y(const mixture *m, int64_t token, int64_t column) {
    return att_load(m->args.y, m->p.dtype_y, token * m->p.y_row + column);
}

const int32_t *mixture_ids(const mixture *m, int64_t token) {
    return m->args.ids + token * m->p.experts_per_token;
}

const float *mixture_weights(const mixture *m, int64_t token) {
    return m->args.weights + token * m->p.experts_per_token;
}

bool mixture_same_row(const mixture *a, int64_t token_a, const mixture *b, int64_t token_b) {
    const size_t size = att_dtype_size(a->p.dtype_y);
    return memcmp((const char *)a->args.y + (size_t)(token_a * a->p.y_row) * size,
                  (const char *)b->args.y + (size_t)(token_b * b->p.y_row) * size,
                  (size_t)a->p.hidden * size) == 0;
}
