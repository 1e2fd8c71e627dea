/* moe_fill.c: contents of the inputs of a mixture of experts, from a seed. */
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "lab/base/random.h"
#include "lab/base/workers.h"
#include "lab/moe/moe_lab.h"
#include "lab/moe/moe_load.h"

/* One random stream per tensor. */
enum { STREAM_TENSORS = 8000, STREAM_CHOICES = 1 << 22 /* + token */ };

typedef struct filling {
    const lab_tensors *tensors;
    const lab_moe_spec *m;
    const att_moe_problem *p;
    uint64_t seed;
    lab_moe_spread spread;
} filling;

static void seed_stream(const filling *f, lab_random *random, int tensor) {
    lab_random_seed(random, f->seed, (uint64_t)(STREAM_TENSORS + tensor));
}

/* -------------------------------------------------------------- weights, biases */

/* Outer by rows by columns of normal numbers times `scale`; filled in strips, in parallel. */
typedef struct numbers {
    const filling *f;
    int tensor;
    int64_t outer, rows, cols, outer_stride, row_stride;
    att_dtype dtype;
    float scale;
    int64_t strip; /* rows */
} numbers;

static void fill_strip(void *context, int64_t n) {
    const numbers *a = context;
    const int64_t end = att_min((n + 1) * a->strip, a->outer * a->rows);
    void *data = a->f->tensors->buffer[a->tensor].data;
    lab_random random;
    seed_stream(a->f, &random, a->tensor);
    lab_random_jump(&random, (uint64_t)(n * a->strip * a->cols));
    for (int64_t row = n * a->strip; row < end; row++) {
        const int64_t at = row / a->rows * a->outer_stride + row % a->rows * a->row_stride;
        for (int64_t c = 0; c < a->cols; c++)
            att_store(data, a->dtype, at + c, a->scale * lab_random_normal(&random));
    }
}

static void fill_numbers(const filling *f, numbers a) {
    enum { STRIP_NUMBERS = 1 << 16 };
    if (!f->tensors->buffer[a.tensor].map)
        return;
    a.f = f;
    a.strip = att_max(1, STRIP_NUMBERS / a.cols);
    lab_workers_run(att_ceil_div(a.outer * a.rows, a.strip), fill_strip, &a);
}

/* Scaled so that a product of numbers of size 1 has size 1. */
static void fill_weights(const filling *f, int tensor, int64_t outputs, int64_t inputs,
                         const att_moe_strides *s) {
    const bool transposed = f->p->flags & ATT_MOE_TRANSPOSED;
    fill_numbers(f, (numbers){.tensor = tensor,
                              .outer = s->expert == 0 ? 1 : f->p->local_experts,
                              .rows = transposed ? inputs : outputs,
                              .cols = transposed ? outputs : inputs,
                              .outer_stride = s->expert,
                              .row_stride = s->row,
                              .dtype = f->p->dtype,
                              .scale = 1.0f / sqrtf((float)inputs)});
}

static void fill_bias(const filling *f, int tensor, int64_t cols, int64_t stride) {
    fill_numbers(f, (numbers){.tensor = tensor,
                              .outer = 1,
                              .rows = stride == 0 ? 1 : f->p->local_experts,
                              .cols = cols,
                              .row_stride = stride,
                              .dtype = f->p->dtype_bias,
                              .scale = 0.5f});
}

/* ----------------------------------------------------------------------- tokens */

/* About every fifth token has special contents: which kind, 0 to 4. */
static int64_t kind_of(int64_t token) {
    return token % 5;
}

static float x_of(const filling *f, int64_t token, int64_t c, float drawn) {
    if (lab_moe_is_masked(f->p, token)) /* masked tokens do not matter */
        return NAN;
    switch (f->m->data) {
    case LAB_MOE_LARGE:
        return 32.0f * drawn;
    case LAB_MOE_ZERO:
        return copysignf(0.0f, drawn);
    case LAB_MOE_DENORMAL:
        return drawn * (f->p->dtype == ATT_F16 ? 0x1p-20f : 0x1p-128f);
    case LAB_MOE_NAN:
        return kind_of(token) == 1 && c == token % f->p->hidden ? NAN : drawn;
    default:
        return drawn;
    }
}

static float logit_of(const filling *f, int64_t token, int64_t e, float drawn) {
    static const float few[] = {-1.0f, -0.0f, 0.0f, 1.0f};
    const int64_t kind = kind_of(token);
    if (lab_moe_is_masked(f->p, token))
        return NAN;
    switch (f->m->data) {
    case LAB_MOE_EQUAL:
        return 0.75f;
    case LAB_MOE_TIES:
        return few[(int)(8.0f + 4.0f * drawn) & 3];
    case LAB_MOE_INF:
        return kind == 0                   ? -INFINITY
               : kind == 1 && e % 3 == 1   ? INFINITY
               : kind == 2 && drawn < 0.0f ? -INFINITY
                                           : drawn;
    case LAB_MOE_NAN:
        return kind == 0 || (kind == 2 && e % 3 == 1) ? NAN : drawn;
    default:
        return drawn;
    }
}

/* If experts are chosen here, their logits are above the others'. */
static void fill_logits(const filling *f, int64_t token, lab_random *random, float *row,
                        int32_t *chosen) {
    const att_moe_problem *p = f->p;
    lab_random_normals(random, row, p->experts);
    if (f->m->load != LAB_MOE_EVEN) {
        lab_random own;
        lab_random_seed(&own, f->seed, (uint64_t)(STREAM_CHOICES + token));
        lab_moe_choose(&f->spread, &own, p->experts_per_token, chosen);
        for (int64_t e = 0; e < p->experts; e++)
            row[e] = 0.5f * row[e] - 3.0f;
        for (int64_t j = 0; j < p->experts_per_token; j++)
            row[chosen[j]] += 6.0f;
    }
    for (int64_t e = 0; e < p->experts; e++)
        att_store(f->tensors->buffer[LAB_MOE_LOGITS].data, p->dtype_logits,
                  token * p->logits_row + e, logit_of(f, token, e, row[e]));
}

/* Weights that sum to 1. The ids of a masked token are ignored. */
static void fill_given(const filling *f, int64_t token, lab_random *random, float *row,
                       int32_t *chosen) {
    const int64_t k = f->p->experts_per_token;
    int32_t *ids = (int32_t *)(void *)f->tensors->buffer[LAB_MOE_GIVEN_IDS].data + token * k;
    float *weights =
        (float *)(void *)f->tensors->buffer[LAB_MOE_GIVEN_WEIGHTS].data + token * k;
    lab_random own;
    float sum = 0.0f;
    lab_random_seed(&own, f->seed, (uint64_t)(STREAM_CHOICES + token));
    lab_moe_choose(&f->spread, &own, k, chosen);
    lab_random_normals(random, row, k);
    for (int64_t j = 0; j < k; j++)
        sum += fabsf(row[j]) + 0.05f;
    for (int64_t j = 0; j < k; j++) {
        const bool hole =
            f->m->data == LAB_MOE_HOLES && (kind_of(token) == 0 || (token + j) % 3 == 0);
        const bool twice = f->m->data == LAB_MOE_HOLES && j > 0 && (token + j) % 4 == 0;
        ids[j] = lab_moe_is_masked(f->p, token) ? INT32_MAX
                 : hole                         ? -1
                                                : chosen[twice ? j - 1 : j];
        weights[j] = hole ? NAN : (fabsf(row[j]) + 0.05f) / sum;
    }
}

typedef struct token_filling {
    const filling *f;
    bool failed;
} token_filling;

enum { STRIP_TOKENS = 16 };

static void fill_tokens(void *context, int64_t n) {
    token_filling *all = context;
    const filling *f = all->f;
    const att_moe_problem *p = f->p;
    const int64_t first = n * STRIP_TOKENS, end = att_min(first + STRIP_TOKENS, p->tokens);
    const bool given = p->routing == ATT_MOE_GIVEN;
    lab_random x, routing;
    float row[ATT_MOE_EXPERTS_MAX];
    int32_t chosen[ATT_MOE_EXPERTS_MAX];
    seed_stream(f, &x, LAB_MOE_X);
    seed_stream(f, &routing, LAB_MOE_LOGITS);
    lab_random_jump(&x, (uint64_t)(first * p->hidden));
    lab_random_jump(&routing, (uint64_t)(first * (given ? p->experts_per_token : p->experts)));
    for (int64_t t = first; t < end; t++) {
        for (int64_t c = 0; c < p->hidden; c++)
            att_store(f->tensors->buffer[LAB_MOE_X].data, p->dtype, t * p->x_row + c,
                      x_of(f, t, c, lab_random_normal(&x)));
        if (p->features & ATT_MOE_MASK)
            f->tensors->buffer[LAB_MOE_MASK].data[t] =
                lab_moe_is_masked(p, t) ? 0 : (unsigned char)(1 + t % 255);
        if (given)
            fill_given(f, t, &routing, row, chosen);
        else
            fill_logits(f, t, &routing, row, chosen);
    }
}

static void fill_correction(const filling *f) {
    fill_numbers(f, (numbers){.tensor = LAB_MOE_CORRECTION,
                              .outer = 1,
                              .rows = 1,
                              .cols = f->p->experts,
                              .dtype = ATT_F32,
                              .scale = 0.1f});
}

bool lab_moe_fill(lab_tensors *t, uint64_t seed, lab_message *why) {
    const att_moe_problem *p = &t->spec.moe.problem;
    filling f = {.tensors = t, .m = &t->spec.moe, .p = p, .seed = seed};
    (void)why;
    if (p->experts > ATT_MOE_EXPERTS_MAX || p->experts_per_token > p->experts)
        return true; /* the library refuses such a problem */
    lab_moe_spread_of(&f.spread, f.m->load, p->experts, p->experts_per_token, seed);
    fill_weights(&f, LAB_MOE_W1, att_moe_w1_rows(p), p->hidden, &p->w1);
    fill_weights(&f, LAB_MOE_W2, p->hidden, p->inner, &p->w2);
    fill_weights(&f, LAB_MOE_W3, p->inner, p->hidden, &p->w3);
    fill_bias(&f, LAB_MOE_B1, att_moe_w1_rows(p), p->b1_expert);
    fill_bias(&f, LAB_MOE_B2, p->hidden, p->b2_expert);
    fill_bias(&f, LAB_MOE_B3, p->inner, p->b3_expert);
    fill_correction(&f);
    token_filling tokens = {.f = &f};
    lab_workers_run(att_ceil_div(p->tokens, STRIP_TOKENS), fill_tokens, &tokens);
    return true;
}
