/* moe_plain.c: the formula of the header in float32. */
#include "moe/ref/moe_plain.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "moe/ref/moe_ref_route.h"
#include "moe/ref/moe_ref_weights.h"

static float rounded(float x, att_dtype dtype) {
    float stored = 0.0f;
    att_store(&stored, dtype, 0, x);
    return att_load(&stored, dtype, 0);
}

/* ------------------------------------------------------------------- weights */

static float share(float x, float top) {
    return x == top ? 1.0f : expf(x - top);
}

static float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

static void softmax(const att_moe_problem *p, const att_moe_args *a, int64_t t,
                    const int32_t *ids, float *weights) {
    const bool over_all = p->routing == ATT_MOE_SOFTMAX_TOPK;
    const int64_t count = over_all ? p->experts : p->experts_per_token;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t i = 0; i < count; i++)
        top = fmaxf(top, att_moe_ref_logit(p, a, t, over_all ? i : ids[i]));
    for (int64_t i = 0; i < count; i++)
        sum += share(att_moe_ref_logit(p, a, t, over_all ? i : ids[i]), top);
    for (int64_t j = 0; j < p->experts_per_token; j++)
        weights[j] = share(att_moe_ref_logit(p, a, t, ids[j]), top) / sum;
}

static void weigh(const att_moe_problem *p, const att_moe_args *a, int64_t t,
                  const int32_t *ids, float *weights) {
    const int64_t k = p->experts_per_token;
    float sum = 0.0f;
    for (int64_t j = 0; j < k; j++)
        weights[j] = 0.0f;
    if (a->mask && a->mask[t] == 0)
        return;
    if (p->routing == ATT_MOE_GIVEN)
        for (int64_t j = 0; j < k; j++)
            weights[j] = ids[j] < 0 ? 0.0f : a->given_weights[t * k + j];
    else if (p->routing == ATT_MOE_SIGMOID)
        for (int64_t j = 0; j < k; j++)
            weights[j] = sigmoid(att_moe_ref_logit(p, a, t, ids[j]));
    else
        softmax(p, a, t, ids, weights);
    for (int64_t j = 0; j < k; j++)
        sum += weights[j];
    for (int64_t j = 0; j < k; j++) {
        if (p->flags & ATT_MOE_RENORMALISE)
            weights[j] /= sum + 1e-20f;
        weights[j] = ids[j] < 0 ? 0.0f : weights[j] * p->scaling;
    }
}

/* ------------------------------------------------------------------ products */

static float dot(const float *w, const float *x, int64_t n, att_moe_plain_order order) {
    float sum = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = order == ATT_MOE_PLAIN_UPWARDS ? i : n - 1 - i;
        sum += w[at] * x[at];
    }
    return sum;
}

static void product(const att_moe_ref_matrix *m, const float *x, att_moe_plain_order order,
                    float *row, float *out) {
    if (m->depth_step == 1) {
        for (int64_t n = 0; n < m->outputs; n++) {
            att_moe_ref_load(m, n, row);
            out[n] = dot(row, x, m->depth, order);
        }
    } else {
        memset(out, 0, (size_t)m->outputs * sizeof *out);
        for (int64_t i = 0; i < m->depth; i++) {
            const int64_t k = order == ATT_MOE_PLAIN_UPWARDS ? i : m->depth - 1 - i;
            att_moe_ref_load_depth(m, k, row);
            for (int64_t n = 0; n < m->outputs; n++)
                out[n] += row[n] * x[k];
        }
    }
    for (int64_t n = 0; n < m->outputs; n++)
        out[n] += att_moe_ref_bias(m, n);
}

static float gelu(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

static float gelu_tanh(float x) {
    return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

/* NaN stays NaN. */
static float clamp(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
}

static float activate(const att_moe_problem *p, float g, float u) {
    switch (p->activation) {
    case ATT_MOE_SWIGLU:
        return g * sigmoid(g) * u;
    case ATT_MOE_GEGLU:
        return gelu(g) * u;
    case ATT_MOE_GEGLU_TANH:
        return gelu_tanh(g) * u;
    case ATT_MOE_SWIGLU_CLAMPED:
        g = clamp(g, -INFINITY, p->limit);
        return (clamp(u, -p->limit, p->limit) + 1.0f) * (g * sigmoid(p->alpha * g));
    case ATT_MOE_RELU2:
        return g < 0.0f ? 0.0f : g * g;
    case ATT_MOE_SILU:
        return g * sigmoid(g);
    case ATT_MOE_GELU:
        return gelu(g);
    case ATT_MOE_GELU_TANH:
        return gelu_tanh(g);
    }
    return NAN;
}

static void add_expert(const att_moe_problem *p, const att_moe_args *a, int64_t e, float weight,
                       att_moe_plain_order order, float *scratch, const float *x, float *y) {
    float *g = scratch, *u = g + p->inner, *out = u + p->inner, *row = out + p->hidden;
    const att_moe_ref_matrix gate = att_moe_ref_gate(p, a, e), down = att_moe_ref_down(p, a, e);
    product(&gate, x, order, row, g);
    if (att_moe_ref_is_gated(p)) {
        const att_moe_ref_matrix up = att_moe_ref_up(p, a, e);
        product(&up, x, order, row, u);
    }
    for (int64_t i = 0; i < p->inner; i++)
        g[i] = rounded(activate(p, g[i], att_moe_ref_is_gated(p) ? u[i] : 0.0f), p->dtype);
    product(&down, g, order, row, out);
    for (int64_t c = 0; c < p->hidden; c++)
        y[c] += weight * out[c];
}

void att_moe_plain_token(const att_moe_problem *p, const att_moe_args *a, int64_t t,
                         att_moe_plain_order order, float *scratch, float *y, int32_t *ids,
                         float *weights) {
    float *x = scratch, *rest = x + p->hidden;
    att_moe_ref_ids(p, a, t, rest, ids);
    weigh(p, a, t, ids, weights);
    for (int64_t c = 0; c < p->hidden; c++) {
        x[c] = att_load(a->x, p->dtype, t * p->x_row + c);
        y[c] = 0.0f;
    }
    for (int64_t j = 0; j < p->experts_per_token; j++)
        if (att_moe_ref_is_local(p, ids[j]))
            add_expert(p, a, ids[j] - p->first_expert, weights[j], order, rest, x, y);
    for (int64_t c = 0; c < p->hidden; c++)
        y[c] = rounded(y[c], p->dtype_y);
}
