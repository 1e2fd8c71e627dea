/* moe_oracle.c: the formula of the header in float64. */
#include "moe/ref/moe_oracle.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "moe/ref/moe_ref_route.h"
#include "moe/ref/moe_ref_weights.h"

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int64_t att_moe_ref_scratch(const att_moe_problem *p) {
    return 2 * p->hidden + 2 * p->inner + most(p->hidden, p->inner) + 2 * p->experts;
}

/* ------------------------------------------------------------------- weights */

/* exp(x - top), with weight 1 for equal infinities. */
static double share(double x, double top) {
    return x == top ? 1.0 : exp(x - top);
}

static double largest(const att_moe_problem *p, const att_moe_args *a, int64_t t,
                      const int32_t *ids, int64_t count) {
    double top = -INFINITY;
    for (int64_t i = 0; i < count; i++)
        top = fmax(top, (double)att_moe_ref_logit(p, a, t, ids ? ids[i] : i));
    return top;
}

static void softmax(const att_moe_problem *p, const att_moe_args *a, int64_t t,
                    const int32_t *ids, double *weights) {
    const bool over_all = p->routing == ATT_MOE_SOFTMAX_TOPK;
    const int32_t *list = over_all ? NULL : ids;
    const int64_t count = over_all ? p->experts : p->experts_per_token;
    const double top = largest(p, a, t, list, count);
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += share((double)att_moe_ref_logit(p, a, t, list ? list[i] : i), top);
    for (int64_t j = 0; j < p->experts_per_token; j++)
        weights[j] = share((double)att_moe_ref_logit(p, a, t, ids[j]), top) / sum;
}

static void weigh(const att_moe_problem *p, const att_moe_args *a, int64_t t,
                  const int32_t *ids, double *weights) {
    const int64_t k = p->experts_per_token;
    if (a->mask && a->mask[t] == 0) {
        memset(weights, 0, (size_t)k * sizeof *weights);
        return;
    }
    double sum = 1e-20;
    if (p->routing == ATT_MOE_GIVEN)
        for (int64_t j = 0; j < k; j++)
            weights[j] = ids[j] < 0 ? 0.0 : (double)a->given_weights[t * k + j];
    else if (p->routing == ATT_MOE_SIGMOID)
        for (int64_t j = 0; j < k; j++)
            weights[j] = 1.0 / (1.0 + exp(-(double)att_moe_ref_logit(p, a, t, ids[j])));
    else
        softmax(p, a, t, ids, weights);
    for (int64_t j = 0; j < k; j++)
        sum += weights[j];
    for (int64_t j = 0; j < k; j++)
        weights[j] = weights[j] / (p->flags & ATT_MOE_RENORMALISE ? sum : 1.0) *
                     (ids[j] < 0 ? 0.0 : (double)p->scaling);
}

/* ------------------------------------------------------------------ products */

static double dot(const float *w, const double *x, int64_t n) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    for (int64_t i = 0; i < n; i++)
        sum[i % 4] += (double)w[i] * x[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void product(const att_moe_ref_matrix *m, const double *x, float *row, double *out) {
    if (m->depth_step == 1) {
        for (int64_t n = 0; n < m->outputs; n++) {
            att_moe_ref_load(m, n, row);
            out[n] = dot(row, x, m->depth);
        }
    } else {
        memset(out, 0, (size_t)m->outputs * sizeof *out);
        for (int64_t k = 0; k < m->depth; k++) {
            att_moe_ref_load_depth(m, k, row);
            for (int64_t n = 0; n < m->outputs; n++)
                out[n] += (double)row[n] * x[k];
        }
    }
    for (int64_t n = 0; n < m->outputs; n++)
        out[n] += (double)att_moe_ref_bias(m, n);
}

static double gelu(double x) {
    return 0.5 * x * (1.0 + erf(x * M_SQRT1_2));
}

static double gelu_tanh(double x) {
    return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

/* NaN stays NaN. */
static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

static double activate(const att_moe_problem *p, double g, double u) {
    const double limit = (double)p->limit;
    switch (p->activation) {
    case ATT_MOE_SWIGLU:
        return g * sigmoid(g) * u;
    case ATT_MOE_GEGLU:
        return gelu(g) * u;
    case ATT_MOE_GEGLU_TANH:
        return gelu_tanh(g) * u;
    case ATT_MOE_SWIGLU_CLAMPED:
        g = clamp(g, -INFINITY, limit);
        return (clamp(u, -limit, limit) + 1.0) * g * sigmoid((double)p->alpha * g);
    case ATT_MOE_RELU2:
        return g < 0.0 ? 0.0 : g * g;
    case ATT_MOE_SILU:
        return g * sigmoid(g);
    case ATT_MOE_GELU:
        return gelu(g);
    case ATT_MOE_GELU_TANH:
        return gelu_tanh(g);
    }
    return NAN;
}

/* y += weight * (output of local expert e for x). */
static void add_expert(const att_moe_problem *p, const att_moe_args *a, int64_t e,
                       double weight, double *scratch, const double *x, double *y) {
    double *g = scratch, *u = g + p->inner, *out = u + p->inner;
    float *row = (float *)(void *)(out + p->hidden);
    const att_moe_ref_matrix gate = att_moe_ref_gate(p, a, e), down = att_moe_ref_down(p, a, e);
    product(&gate, x, row, g);
    if (att_moe_ref_is_gated(p)) {
        const att_moe_ref_matrix up = att_moe_ref_up(p, a, e);
        product(&up, x, row, u);
    }
    for (int64_t i = 0; i < p->inner; i++)
        g[i] = activate(p, g[i], att_moe_ref_is_gated(p) ? u[i] : 0.0);
    product(&down, g, row, out);
    for (int64_t c = 0; c < p->hidden; c++)
        y[c] += weight * out[c];
}

void att_moe_ref_token(const att_moe_problem *p, const att_moe_args *a, int64_t t,
                       double *scratch, double *y, int32_t *ids, double *weights) {
    double *x = scratch, *rest = x + p->hidden;
    att_moe_ref_ids(p, a, t, (float *)(void *)rest, ids);
    weigh(p, a, t, ids, weights);
    for (int64_t c = 0; c < p->hidden; c++) {
        x[c] = (double)att_load(a->x, p->dtype, t * p->x_row + c);
        y[c] = 0.0;
    }
    for (int64_t j = 0; j < p->experts_per_token; j++)
        if (att_moe_ref_is_local(p, ids[j]))
            add_expert(p, a, ids[j] - p->first_expert, weights[j], rest, x, y);
}
