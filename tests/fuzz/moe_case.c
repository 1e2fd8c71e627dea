/* moe_case.c: mixtures of experts by the formula of attest.h in float64. */
#include "tests/fuzz/moe_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/number_types.h"

enum { SIZE_MOST = 4096 };

static const att_dtype types[] = {ATT_F32, ATT_F16, ATT_BF16};

static bool is_gated(const att_moe_problem *p) {
    return p->activation == ATT_MOE_SWIGLU || p->activation == ATT_MOE_GEGLU ||
           p->activation == ATT_MOE_GEGLU_TANH || p->activation == ATT_MOE_SWIGLU_CLAMPED;
}

static bool is_apart(const att_moe_problem *p) {
    return is_gated(p) && p->gate == ATT_MOE_APART;
}

static int64_t rows_of_w1(const att_moe_problem *p) {
    return is_gated(p) && !is_apart(p) ? 2 * p->inner : p->inner;
}

/* ------------------------------------------------------------------------- problems */

static void draw_routing(att_moe_problem *p, random_input *in) {
    p->routing = (att_moe_routing)draw_between(in, 0, 3);
    p->flags = p->routing != ATT_MOE_GIVEN && draw_chance(in, 50) ? ATT_MOE_RENORMALISE : 0;
    p->scaling = draw_chance(in, 30) ? (float)draw_between(in, -4, 4) : 1.0f;
    if (p->routing != ATT_MOE_SIGMOID)
        return;
    if (draw_chance(in, 50))
        p->features |= ATT_MOE_CORRECTION;
    if (p->experts % 3 == 0 && p->experts >= 6 && draw_chance(in, 50)) {
        p->groups = 3;
        p->groups_kept = draw_between(in, 1, 3);
        while (p->groups_kept * (p->experts / 3) < p->experts_per_token)
            p->groups_kept++;
    }
}

void moe_draw(att_moe_problem *p, random_input *in) {
    const int64_t experts = draw_between(in, 1, 12);
    const att_dtype dtype = types[draw_byte(in) % 3];
    att_moe_problem_init(p, draw_between(in, 0, draw_chance(in, 20) ? 60 : 8),
                         draw_between(in, 1, 40), draw_between(in, 1, 40), experts,
                         draw_between(in, 1, experts), dtype);
    p->features = ATT_MOE_IDS;
    p->dtype_y = draw_chance(in, 30) ? ATT_F32 : dtype;
    p->dtype_logits = draw_chance(in, 30) ? dtype : ATT_F32;
    p->dtype_bias = draw_chance(in, 30) ? ATT_F32 : dtype;
    p->activation = (att_moe_activation)draw_between(in, 0, 7);
    p->gate = is_gated(p) ? (att_moe_gate)draw_between(in, 0, 2) : ATT_MOE_CONCATENATED;
    p->features |= draw_byte(in) & (ATT_MOE_BIAS1 | ATT_MOE_BIAS2 | ATT_MOE_MASK |
                                    ATT_MOE_WEIGHTS | ATT_MOE_COUNTS);
    draw_routing(p, in);
    if (draw_chance(in, 30))
        p->flags |= ATT_MOE_TRANSPOSED;
    if (draw_chance(in, 30)) {
        p->first_expert = draw_between(in, 0, experts - 1);
        p->local_experts = draw_between(in, 1, experts - p->first_expert);
    }
    att_moe_problem_layout(p);
    int64_t *rows[] = {&p->x_row, &p->y_row, &p->logits_row, &p->b1_expert, &p->b2_expert};
    if (draw_chance(in, 30))
        *rows[draw_byte(in) % 5] += draw_between(in, 1, 9);
    att_moe_strides *weights[] = {&p->w1, &p->w2, &p->w3};
    att_moe_strides *s = weights[draw_byte(in) % 3];
    if (draw_chance(in, 30)) {
        s->row += draw_between(in, 1, 5);
        s->expert *= 3;
    }
    if (draw_chance(in, 10))
        s->expert = 0;
    p->alignment = draw_chance(in, 30) ? 4 << draw_between(in, 0, 4) : 0;
}

void moe_break(att_moe_problem *p, random_input *in) {
    int64_t *fields[] = {
        &p->tokens,      &p->hidden,           &p->inner,         &p->experts,   &p->groups,
        &p->groups_kept, &p->first_expert,     &p->local_experts, &p->x_row,     &p->y_row,
        &p->logits_row,  &p->w1.expert,        &p->w1.row,        &p->w2.expert, &p->w2.row,
        &p->w3.expert,   &p->w3.row,           &p->b1_expert,     &p->b2_expert, &p->b3_expert,
        &p->alignment,   &p->experts_per_token};
    for (int64_t n = draw_between(in, 1, 3); n > 0; n--)
        *fields[draw_byte(in) % (sizeof fields / sizeof fields[0])] = draw_odd(in);
    const uint32_t value = draw_byte(in) % 10;
    void *const enums[] = {&p->dtype,      &p->dtype_y, &p->dtype_logits, &p->dtype_bias,
                           &p->activation, &p->routing, &p->gate};
    if (draw_chance(in, 30))
        memcpy(enums[draw_byte(in) % 7], &value, sizeof value);
    if (draw_chance(in, 10))
        p->features = draw_u32(in);
    if (draw_chance(in, 10))
        p->flags = draw_u32(in);
    if (draw_chance(in, 10))
        p->limit = draw_chance(in, 50) ? NAN : -1.0f;
}

/* --------------------------------------------------------------------------- arrays */

/* Elements from the first to the last of outer x rows x cols. */
static double extent(int64_t outer, int64_t rows, int64_t cols, int64_t outer_stride,
                     int64_t row_stride) {
    return (double)(outer > 1 ? (outer - 1) : 0) * (double)outer_stride +
           (double)(rows > 1 ? (rows - 1) : 0) * (double)row_stride + (double)cols;
}

static bool open_slot(moe_case *c, int which, double elements, size_t size, size_t align,
                      unsigned char fill) {
    return elements * (double)size <= ARRAY_SLOT_BYTES / 2 &&
           array_open(&c->slot[which], (size_t)elements * size, align, fill) != NULL;
}

/* Strides of arrays that the problem does not have may be anything. */
static bool open_weights(moe_case *c, int which, bool used, int64_t outputs, int64_t inputs,
                         const att_moe_strides *s, size_t align) {
    const att_moe_problem *p = &c->problem;
    const bool transposed = p->flags & ATT_MOE_TRANSPOSED;
    const double elements = used ? extent(p->local_experts, transposed ? inputs : outputs,
                                          transposed ? outputs : inputs, s->expert, s->row)
                                 : 0.0;
    return open_slot(c, which, elements, att_dtype_size(p->dtype), align, 0);
}

static bool open_bias(moe_case *c, int which, bool used, int64_t columns, int64_t stride) {
    const att_moe_problem *p = &c->problem;
    const double elements =
        used ? extent(1, p->local_experts, columns, 0, stride) : (double)columns;
    return open_slot(c, which, elements, att_dtype_size(p->dtype_bias), 4, 0);
}

static bool open_arrays(moe_case *c, size_t align) {
    const att_moe_problem *p = &c->problem;
    const double slots = (double)p->tokens * (double)p->experts_per_token;
    const bool any = p->tokens > 0, given = p->routing == ATT_MOE_GIVEN, apart = is_apart(p);
    const bool bias1 = any && p->features & ATT_MOE_BIAS1;
    return open_slot(c, MOE_Y, any ? extent(1, p->tokens, p->hidden, 0, p->y_row) : 0,
                     att_dtype_size(p->dtype_y), align, MOE_FILL) &&
           open_slot(c, MOE_IDS, slots, 4, 4, MOE_FILL) &&
           open_slot(c, MOE_WEIGHTS, slots, 4, 4, MOE_FILL) &&
           open_slot(c, MOE_COUNTS, (double)(p->experts + 1), 4, 4, MOE_FILL) &&
           open_slot(c, MOE_X, any ? extent(1, p->tokens, p->hidden, 0, p->x_row) : 0,
                     att_dtype_size(p->dtype), align, 0) &&
           open_slot(c, MOE_LOGITS,
                     any && !given ? extent(1, p->tokens, p->experts, 0, p->logits_row) : 0,
                     att_dtype_size(p->dtype_logits), 4, 0) &&
           open_weights(c, MOE_W1, any, rows_of_w1(p), p->hidden, &p->w1, align) &&
           open_weights(c, MOE_W2, any, p->hidden, p->inner, &p->w2, align) &&
           open_weights(c, MOE_W3, any && apart, p->inner, p->hidden, &p->w3, align) &&
           open_bias(c, MOE_B1, bias1, rows_of_w1(p), p->b1_expert) &&
           open_bias(c, MOE_B3, bias1 && apart, p->inner, p->b3_expert) &&
           open_bias(c, MOE_B2, any && p->features & ATT_MOE_BIAS2, p->hidden, p->b2_expert) &&
           open_slot(c, MOE_CORRECTION, (double)p->experts, 4, 4, 0) &&
           open_slot(c, MOE_MASK, (double)p->tokens, 1, 1, 1) &&
           open_slot(c, MOE_GIVEN_IDS, slots, 4, 4, 0) &&
           open_slot(c, MOE_GIVEN_WEIGHTS, slots, 4, 4, 0);
}

static void fill(const array_slot *slot, att_dtype dtype, double scale, random_input *in) {
    for (int64_t i = 0; i < (int64_t)(slot->bytes / att_dtype_size(dtype)); i++)
        store_number(slot->data, dtype, i, scale * draw_value(in));
}

static void fill_arrays(moe_case *c, random_input *in) {
    const att_moe_problem *p = &c->problem;
    const int64_t slots = p->tokens * p->experts_per_token;
    fill(&c->slot[MOE_X], p->dtype, 1.0, in);
    fill(&c->slot[MOE_LOGITS], p->dtype_logits, 3.0, in);
    for (int i = MOE_W1; i <= MOE_W3; i++)
        fill(&c->slot[i], p->dtype, 0.5, in);
    for (int i = MOE_B1; i <= MOE_B3; i++)
        fill(&c->slot[i], p->dtype_bias, 1.0, in);
    fill(&c->slot[MOE_CORRECTION], ATT_F32, 0.2, in);
    fill(&c->slot[MOE_GIVEN_WEIGHTS], ATT_F32, 1.0, in);
    for (int64_t t = 0; t < p->tokens; t++)
        c->slot[MOE_MASK].data[t] = !draw_chance(in, 30);
    for (int64_t s = 0; s < slots; s++)
        ((int32_t *)(void *)c->slot[MOE_GIVEN_IDS].data)[s] =
            (int32_t)draw_between(in, -1, p->experts - 1);
}

bool moe_open(moe_case *c, random_input *in, size_t workspace_bytes) {
    const att_moe_problem *p = &c->problem;
    const size_t whole = p->alignment > 0 && p->alignment < 256 ? (size_t)p->alignment : 16;
    const bool given = p->routing == ATT_MOE_GIVEN, biased = p->features & ATT_MOE_BIAS1;
    if (p->tokens > SIZE_MOST || p->hidden > SIZE_MOST || p->inner > SIZE_MOST ||
        workspace_bytes > 64 << 20 || !open_arrays(c, whole > 4 ? whole : 4))
        return false;
    c->workspace = workspace_bytes ? aligned_alloc(ATT_WORKSPACE_ALIGN, workspace_bytes) : NULL;
    if (workspace_bytes && !c->workspace)
        abort();
    fill_arrays(c, in);
    c->args = (att_moe_args){.size = sizeof c->args,
                             .x = c->slot[MOE_X].data,
                             .w1 = c->slot[MOE_W1].data,
                             .w2 = c->slot[MOE_W2].data,
                             .y = c->slot[MOE_Y].data,
                             .workspace_size = workspace_bytes};
    c->args.logits = given ? NULL : c->slot[MOE_LOGITS].data;
    if (given) {
        c->args.given_ids = (const int32_t *)(const void *)c->slot[MOE_GIVEN_IDS].data;
        c->args.given_weights = (const float *)(const void *)c->slot[MOE_GIVEN_WEIGHTS].data;
    }
    if (is_apart(p))
        c->args.w3 = c->slot[MOE_W3].data;
    if (biased)
        c->args.b1 = c->slot[MOE_B1].data;
    if (biased && is_apart(p))
        c->args.b3 = c->slot[MOE_B3].data;
    if (p->features & ATT_MOE_BIAS2)
        c->args.b2 = c->slot[MOE_B2].data;
    if (p->features & ATT_MOE_CORRECTION)
        c->args.correction = (const float *)(const void *)c->slot[MOE_CORRECTION].data;
    if (p->features & ATT_MOE_MASK)
        c->args.mask = c->slot[MOE_MASK].data;
    if (p->features & ATT_MOE_IDS)
        c->args.ids = (int32_t *)(void *)c->slot[MOE_IDS].data;
    if (p->features & ATT_MOE_WEIGHTS)
        c->args.weights = (float *)(void *)c->slot[MOE_WEIGHTS].data;
    if (p->features & ATT_MOE_COUNTS)
        c->args.counts = (int32_t *)(void *)c->slot[MOE_COUNTS].data;
    return true;
}

void moe_close(moe_case *c) {
    free(c->workspace);
    c->workspace = NULL;
}

bool moe_spoil(moe_case *c, random_input *in) {
    const att_moe_problem *p = &c->problem;
    if (p->tokens == 0)
        return false;
    switch (draw_between(in, 0, 5)) {
    case 0:
        c->args.y = NULL;
        return true;
    case 1:
        c->args.w2 = NULL;
        return true;
    case 2:
        c->args.y = c->slot[MOE_W1].data;
        return true;
    case 3:
        c->args.b2 = c->args.b2 ? NULL : c->slot[MOE_B2].data;
        return true;
    case 4:
        c->args.logits = c->args.logits ? NULL : c->slot[MOE_X].data;
        return true;
    default:
        if (p->routing != ATT_MOE_GIVEN || p->features & ATT_MOE_MASK)
            return false;
        ((int32_t *)(void *)c->slot[MOE_GIVEN_IDS].data)[0] =
            draw_chance(in, 50) ? (int32_t)p->experts : -2;
        return true;
    }
}

/* --------------------------------------------------------------------------- checks */

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static double logit(const moe_case *c, int64_t t, int64_t e) {
    return load_number(c->args.logits, c->problem.dtype_logits, t * c->problem.logits_row + e);
}

/* The selection score: no score that was left out may exceed a selected one by more than
 * float32 rounding. */
static double score(const moe_case *c, int64_t t, int64_t e) {
    const double own =
        c->problem.routing == ATT_MOE_SIGMOID ? sigmoid(logit(c, t, e)) : logit(c, t, e);
    return own + (c->args.correction ? (double)c->args.correction[e] : 0.0);
}

static void check_ids(const moe_case *c, int64_t t, const int32_t *ids, const char *name) {
    const att_moe_problem *p = &c->problem;
    const bool masked = c->args.mask && !c->args.mask[t];
    for (int64_t j = 0; j < p->experts_per_token; j++) {
        const int32_t want = masked ? -1
                             : c->args.given_ids
                                 ? c->args.given_ids[t * p->experts_per_token + j]
                                 : ids[j];
        if (ids[j] != want ||
            (!masked && !c->args.given_ids && (ids[j] < 0 || ids[j] >= p->experts)))
            finding("%s: ids[%lld][%lld] is %d", name, (long long)t, (long long)j, (int)ids[j]);
    }
    if (masked || c->args.given_ids)
        return;
    for (int64_t j = 0; j < p->experts_per_token; j++)
        for (int64_t e = 0; e < p->experts; e++) {
            bool taken = false;
            for (int64_t i = 0; i <= j; i++)
                taken = taken || ids[i] == e;
            const bool exact = p->routing != ATT_MOE_SIGMOID;
            const double own = score(c, t, ids[j]), other = score(c, t, e);
            if (!taken && p->groups == 1 &&
                (other > own + (exact ? 0.0 : 1e-6) || (exact && other == own && e < ids[j])))
                finding("%s: token %lld goes to %d before %lld", name, (long long)t,
                        (int)ids[j], (long long)e);
            for (int64_t i = 0; i < j; i++)
                if (ids[i] == ids[j])
                    finding("%s: token %lld goes to %d twice", name, (long long)t, (int)ids[j]);
        }
}

static void expect_weights(const moe_case *c, int64_t t, const int32_t *ids, double *weights) {
    const att_moe_problem *p = &c->problem;
    const int64_t k = p->experts_per_token;
    const bool over_all = p->routing == ATT_MOE_SOFTMAX_TOPK;
    double sum = 0.0, total = 1e-20;
    for (int64_t i = 0; !c->args.given_ids && i < (over_all ? p->experts : k); i++)
        sum += ids[0] < 0 ? 0.0 : exp(logit(c, t, over_all ? i : ids[i]));
    for (int64_t j = 0; j < k; j++) {
        weights[j] = ids[j] < 0                      ? 0.0
                     : c->args.given_ids             ? (double)c->args.given_weights[t * k + j]
                     : p->routing == ATT_MOE_SIGMOID ? sigmoid(logit(c, t, ids[j]))
                                                     : exp(logit(c, t, ids[j])) / sum;
        total += weights[j];
    }
    for (int64_t j = 0; j < k; j++)
        weights[j] *= (double)p->scaling / (p->flags & ATT_MOE_RENORMALISE ? total : 1.0);
}

/* The weight of row n of w1 or w3, or of w2, at depth d. */
static double weight_at(const moe_case *c, int slot, const att_moe_strides *s, int64_t e,
                        int64_t n, int64_t d) {
    const att_moe_problem *p = &c->problem;
    return load_number(
        c->slot[slot].data, p->dtype,
        e * s->expert + (p->flags & ATT_MOE_TRANSPOSED ? d * s->row + n : n * s->row + d));
}

/* Gate (part 0) or up (part 1) of row i. */
static double first_product(const moe_case *c, int64_t t, int64_t e, int64_t i, int part) {
    const att_moe_problem *p = &c->problem;
    const bool apart = part == 1 && is_apart(p),
               turns = is_gated(p) && p->gate == ATT_MOE_INTERLEAVED;
    const int64_t row = turns ? 2 * i + part : part == 1 && !apart ? p->inner + i : i;
    double sum = 0.0;
    for (int64_t d = 0; d < p->hidden; d++)
        sum += weight_at(c, apart ? MOE_W3 : MOE_W1, apart ? &p->w3 : &p->w1, e, row, d) *
               load_number(c->args.x, p->dtype, t * p->x_row + d);
    if (p->features & ATT_MOE_BIAS1)
        sum += load_number(c->slot[apart ? MOE_B3 : MOE_B1].data, p->dtype_bias,
                           e * (apart ? p->b3_expert : p->b1_expert) + row);
    return sum;
}

static double activate(const att_moe_problem *p, double g, double u) {
    const double cubic = 0.7978845608028654 * (g + 0.044715 * g * g * g);
    const double limit = (double)p->limit;
    switch (p->activation) {
    case ATT_MOE_SWIGLU:
        return g * sigmoid(g) * u;
    case ATT_MOE_GEGLU:
        return 0.5 * g * erfc(-g / sqrt(2.0)) * u;
    case ATT_MOE_GEGLU_TANH:
        return 0.5 * g * (1.0 + tanh(cubic)) * u;
    case ATT_MOE_SWIGLU_CLAMPED:
        g = fmin(g, limit);
        return (fmax(-limit, fmin(u, limit)) + 1.0) * g * sigmoid((double)p->alpha * g);
    case ATT_MOE_RELU2:
        return g > 0.0 ? g * g : 0.0;
    case ATT_MOE_SILU:
        return g * sigmoid(g);
    case ATT_MOE_GELU:
        return 0.5 * g * erfc(-g / sqrt(2.0));
    case ATT_MOE_GELU_TANH:
        return 0.5 * g * (1.0 + tanh(cubic));
    }
    return 0.0;
}

/* y += weight * (output of expert e for token t); the magnitudes of the terms are summed
 * too. */
static void add_expert(const moe_case *c, int64_t t, int64_t e, double weight, double *y,
                       double *size) {
    const att_moe_problem *p = &c->problem;
    double *h = malloc((size_t)p->inner * sizeof *h);
    if (!h)
        abort();
    for (int64_t i = 0; i < p->inner; i++)
        h[i] = activate(p, first_product(c, t, e, i, 0),
                        is_gated(p) ? first_product(c, t, e, i, 1) : 0.0);
    for (int64_t n = 0; n < p->hidden; n++) {
        double sum =
            p->features & ATT_MOE_BIAS2
                ? load_number(c->slot[MOE_B2].data, p->dtype_bias, e * p->b2_expert + n)
                : 0.0;
        double terms = fabs(sum);
        for (int64_t i = 0; i < p->inner; i++) {
            const double term = weight_at(c, MOE_W2, &p->w2, e, n, i) * h[i];
            sum += term;
            terms += fabs(term) + 0.1 * fabs(weight_at(c, MOE_W2, &p->w2, e, n, i));
        }
        y[n] += weight * sum;
        size[n] += fabs(weight) * terms;
    }
    free(h);
}

static void check_token(const moe_case *c, int64_t t, const char *name) {
    const att_moe_problem *p = &c->problem;
    const int64_t k = p->experts_per_token;
    const int32_t *ids = c->args.ids + t * k;
    double y[SIZE_MOST] = {0.0}, size[SIZE_MOST] = {0.0}, weights[64];
    check_ids(c, t, ids, name);
    expect_weights(c, t, ids, weights);
    for (int64_t j = 0; j < k; j++) {
        const int64_t e = ids[j] - p->first_expert;
        const double tolerance = 1e-5 * (1.0 + fabs(weights[j]));
        if (c->args.weights &&
            !(fabs((double)c->args.weights[t * k + j] - weights[j]) <= tolerance))
            finding("%s: weights[%lld][%lld] is %.9g, not %.9g", name, (long long)t,
                    (long long)j, (double)c->args.weights[t * k + j], weights[j]);
        if (ids[j] >= 0 && e >= 0 && e < p->local_experts)
            add_expert(c, t, e, weights[j], y, size);
    }
    for (int64_t n = 0; n < p->hidden; n++) {
        const double got = load_number(c->args.y, p->dtype_y, t * p->y_row + n);
        const double bound = 2e-5 * size[n] + 2.0 * rounding_relative(p->dtype) * size[n] +
                             fabs(y[n]) * rounding_relative(p->dtype_y) +
                             rounding_absolute(p->dtype_y) +
                             rounding_absolute(p->dtype) * (double)p->inner;
        if (!(fabs(got - y[n]) <= bound))
            finding("%s: y[%lld][%lld] is %.9g, not %.9g within %.3g", name, (long long)t,
                    (long long)n, got, y[n], bound);
    }
}

static void check_counts(const moe_case *c, const char *name) {
    const att_moe_problem *p = &c->problem;
    for (int64_t e = 0; e <= p->experts; e++) {
        int32_t want = 0;
        for (int64_t s = 0; s < p->tokens * p->experts_per_token; s++)
            want += c->args.ids[s] == e;
        if (c->args.counts[e] != want)
            finding("%s: counts[%lld] is %d, not %d", name, (long long)e,
                    (int)c->args.counts[e], (int)want);
    }
}

static void check_around(const moe_case *c) {
    for (int i = 0; i < MOE_SLOTS; i++)
        if (c->slot[i].map && !array_intact(&c->slot[i]))
            finding("moe: bytes around array %d were written", i);
}

void moe_check_untouched(const moe_case *c) {
    check_around(c);
    for (size_t i = 0; i < c->slot[MOE_Y].bytes; i++)
        if (c->slot[MOE_Y].data[i] != MOE_FILL)
            finding("a refused mixture wrote y");
}

void moe_check(const moe_case *c, const char *name) {
    const att_moe_problem *p = &c->problem;
    check_around(c);
    if (!c->args.ids)
        return;
    for (int64_t t = 0; t < p->tokens && p->experts_per_token <= 64; t++)
        check_token(c, t, name);
    if (c->args.counts)
        check_counts(c, name);
    const size_t size = att_dtype_size(p->dtype_y);
    for (int64_t t = 0; t + 1 < p->tokens; t++)
        for (size_t i = (size_t)(t * p->y_row + p->hidden) * size;
             i < (size_t)((t + 1) * p->y_row) * size; i++)
            if (c->slot[MOE_Y].data[i] != MOE_FILL)
                finding("%s: byte %zu of y belongs to no row and was written", name, i);
}
