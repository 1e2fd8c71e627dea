/* gradients.c: a problem of the backward operation with its arrays, and its gradients from
 * float64 loops. */
#include "tests/support/gradients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "tests/support/rng.h"

static bool packed_q(const gradients *g) {
    return g->p.features & ATT_CU_SEQLENS_Q;
}
static bool packed_k(const gradients *g) {
    return g->p.features & ATT_CU_SEQLENS_K;
}

int64_t gradients_rows(const gradients *g, int64_t b) {
    return packed_q(g) ? g->lengths.cu_q[b + 1] - g->lengths.cu_q[b] : g->p.seq_q;
}
int64_t gradients_keys(const gradients *g, int64_t b) {
    return packed_k(g) ? g->lengths.cu_k[b + 1] - g->lengths.cu_k[b] : g->p.seq_k;
}

static int64_t keys_used(const gradients *g, int64_t b) {
    const int64_t keys = gradients_keys(g, b);
    return g->p.features & ATT_LENS_K ? att_min(keys, g->lengths.lens_k[b]) : keys;
}

int64_t gradients_at_q(const gradients *g, const att_strides *st, int64_t b, int64_t h,
                       int64_t i) {
    return packed_q(g) ? h * st->head + (g->lengths.cu_q[b] + i) * st->row
                       : b * st->batch + h * st->head + i * st->row;
}
int64_t gradients_at_k(const gradients *g, const att_strides *st, int64_t b, int64_t h,
                       int64_t j) {
    return packed_k(g) ? h * st->head + (g->lengths.cu_k[b] + j) * st->row
                       : b * st->batch + h * st->head + j * st->row;
}

static int64_t at_bias(const att_strides *st, int64_t b, int64_t h, int64_t i, int64_t j) {
    return b * st->batch + h * st->head + i * st->row + j * st->col;
}

static int64_t diagonal(const gradients *g, int64_t b, int64_t i) {
    const att_problem *p = &g->p;
    const bool bottom = p->causal == ATT_CAUSAL_BOTTOM_RIGHT ||
                        (p->causal == ATT_CAUSAL_NONE && p->align == ATT_ALIGN_BOTTOM_RIGHT);
    int64_t offset = p->q_offset - p->k_offset;
    if (p->features & ATT_Q_OFFSETS)
        offset += g->lengths.q_offsets[b];
    if (p->features & ATT_K_OFFSETS)
        offset -= g->lengths.k_offsets[b];
    return bottom ? i + keys_used(g, b) - gradients_rows(g, b) : i + offset;
}

bool gradients_seen(const gradients *g, int64_t b, int64_t h, int64_t i, int64_t j) {
    const att_problem *p = &g->p;
    const int64_t d = diagonal(g, b, i);
    if (j >= keys_used(g, b) || (p->features & ATT_STARTS_K && j < g->lengths.starts_k[b]))
        return false;
    if ((p->causal != ATT_CAUSAL_NONE && j > d) ||
        (p->window_right >= 0 && j > d + p->window_right) ||
        (p->window_left >= 0 && j < d - p->window_left))
        return false;
    if (!(p->features & ATT_BIAS))
        return true;
    const float bias = att_load(g->bias.data, p->bias_dtype, at_bias(&p->bias, b, h, i, j));
    return p->bias_dtype == ATT_BOOL8 ? bias != 0.0f : bias != -INFINITY;
}

static size_t reach(const att_strides *st, int64_t batch, int64_t heads, int64_t rows,
                    int64_t cols) {
    if (batch * heads * rows * cols == 0)
        return 0;
    return (size_t)((batch - 1) * st->batch + (heads - 1) * st->head + (rows - 1) * st->row +
                    (cols - 1) * st->col + 1);
}

static guarded open_array(size_t elements, size_t element) {
    guarded array = guard_open(elements * element, element);
    memset(array.data, 0xff, array.bytes);
    return array;
}

static guarded open_rows(const att_strides *st, bool packed, int64_t batch, int64_t heads,
                         int64_t rows, int64_t total, int64_t cols, att_dtype dtype) {
    return open_array(reach(st, packed ? 1 : batch, heads, packed ? total : rows, cols),
                      att_dtype_size(dtype));
}

static float *floats(const guarded *array) {
    return (float *)(void *)array->data;
}

static double *zeros(int64_t n) {
    return calloc((size_t)att_max(n, 1), sizeof(double));
}

static void fill(gradients *g, uint64_t *random, float loud) {
    const att_problem *p = &g->p;
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < gradients_rows(g, b); i++) {
                for (int64_t x = 0; x < p->d_qk; x++)
                    att_store(g->q.data, p->dtype, gradients_at_q(g, &p->q, b, h, i) + x,
                              loud * rng_signed(random));
                for (int64_t x = 0; x < p->d_v; x++)
                    att_store(g->d_o.data, p->dtype_o,
                              gradients_at_q(g, &p->grad_o, b, h, i) + x, rng_signed(random));
            }
        for (int64_t h = 0; h < p->heads_kv; h++)
            for (int64_t j = 0; j < gradients_keys(g, b); j++) {
                for (int64_t x = 0; x < p->d_qk; x++)
                    att_store(g->k.data, p->dtype, gradients_at_k(g, &p->k, b, h, j) + x,
                              loud * rng_signed(random));
                for (int64_t x = 0; x < p->d_v; x++)
                    att_store(g->v.data, p->dtype, gradients_at_k(g, &p->v, b, h, j) + x,
                              rng_signed(random));
            }
        for (int64_t h = 0; p->features & ATT_ALIBI && h < p->heads_q; h++)
            floats(&g->alibi)[b * p->alibi_stride_batch + h] =
                0.1f * (1.0f + rng_signed(random));
        for (int64_t h = 0; p->features & ATT_BIAS && h < p->heads_q; h++)
            for (int64_t i = 0; i < p->seq_q; i++)
                for (int64_t j = 0; j < p->seq_k; j++) {
                    const int64_t at = at_bias(&p->bias, b, h, i, j);
                    const float draw = rng_signed(random);
                    if (p->bias_dtype == ATT_BOOL8)
                        g->bias.data[at] = draw > -0.4f;
                    else
                        att_store(g->bias.data, p->bias_dtype, at,
                                  draw < -0.8f ? -INFINITY : 2.0f * draw);
                }
    }
    for (int64_t h = 0; p->features & ATT_SINKS && h < p->heads_q; h++)
        floats(&g->sinks)[h] = 2.0f * rng_signed(random);
}

/* One row: its keys' scores, weights and their derivatives. */
typedef struct row {
    const gradients *g;
    int64_t b, h, i, keys;
    double *capped, *weight, *o;
} row;

static double load(const void *base, att_dtype dtype, int64_t at) {
    return (double)att_load(base, dtype, at);
}

static double score_of(const row *r, int64_t j) {
    const att_problem *p = &r->g->p;
    const int64_t q = gradients_at_q(r->g, &p->q, r->b, r->h, r->i);
    const int64_t k = gradients_at_k(r->g, &p->k, r->b, r->h / (p->heads_q / p->heads_kv), j);
    double s = 0.0;
    for (int64_t x = 0; x < p->d_qk; x++)
        s += load(r->g->q.data, p->dtype, q + x) * load(r->g->k.data, p->dtype, k + x);
    s *= (double)p->scale;
    if (p->softcap > 0.0f)
        s = (double)p->softcap * tanh(s / (double)p->softcap);
    r->capped[j] = s;
    if (p->features & ATT_ALIBI)
        s -= (double)floats(&r->g->alibi)[r->b * p->alibi_stride_batch + r->h] *
             fabs((double)(diagonal(r->g, r->b, r->i) - j));
    if (p->features & ATT_BIAS && p->bias_dtype != ATT_BOOL8)
        s += load(r->g->bias.data, p->bias_dtype, at_bias(&p->bias, r->b, r->h, r->i, j));
    return s;
}

/* The forward pass of a row: weights that sum to 1 with the sink's; stores o and lse. */
static void forward_row(row *r) {
    const gradients *g = r->g;
    const att_problem *p = &g->p;
    const bool has_sink = p->features & ATT_SINKS;
    double top = has_sink ? (double)floats(&g->sinks)[r->h] : -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < r->keys; j++) {
        r->weight[j] =
            gradients_seen(g, r->b, r->h, r->i, j) ? score_of(r, j) : -(double)INFINITY;
        top = fmax(top, r->weight[j]);
    }
    if (has_sink)
        sum = exp((double)floats(&g->sinks)[r->h] - top);
    for (int64_t j = 0; j < r->keys; j++) {
        r->weight[j] = r->weight[j] == -INFINITY ? 0.0 : exp(r->weight[j] - top);
        sum += r->weight[j];
    }
    for (int64_t x = 0; x < p->d_v; x++)
        r->o[x] = 0.0;
    for (int64_t j = 0; j < r->keys; j++) {
        const int64_t v = gradients_at_k(g, &p->v, r->b, r->h / (p->heads_q / p->heads_kv), j);
        if (r->weight[j] == 0.0)
            continue;
        r->weight[j] /= sum;
        for (int64_t x = 0; x < p->d_v; x++)
            r->o[x] += r->weight[j] * load(g->v.data, p->dtype, v + x);
    }
    for (int64_t x = 0; x < p->d_v; x++)
        att_store(g->o.data, p->dtype_o, gradients_at_q(g, &p->o, r->b, r->h, r->i) + x,
                  (float)r->o[x]);
    floats(&g->lse)[gradients_at_q(g, &p->lse, r->b, r->h, r->i)] =
        sum == 0.0 ? -INFINITY : (float)(top + log(sum));
}

static void backward_row(const row *r, gradient_answers *want) {
    const gradients *g = r->g;
    const att_problem *p = &g->p;
    const int64_t head_kv = r->h / (p->heads_q / p->heads_kv);
    const int64_t at_do = gradients_at_q(g, &p->grad_o, r->b, r->h, r->i);
    const int64_t at_q = gradients_at_q(g, &p->q, r->b, r->h, r->i);
    double *d_q = want->d_q + ((r->b * p->heads_q + r->h) * p->seq_q + r->i) * p->d_qk;
    double delta = 0.0;
    for (int64_t x = 0; x < p->d_v; x++)
        delta += r->o[x] * load(g->d_o.data, p->dtype_o, at_do + x);
    double weights = 0.0;
    for (int64_t j = 0; j < r->keys; j++) {
        const double weight = r->weight[j];
        if (!gradients_seen(g, r->b, r->h, r->i, j))
            continue;
        weights += weight;
        const int64_t v = gradients_at_k(g, &p->v, r->b, head_kv, j);
        const int64_t k = gradients_at_k(g, &p->k, r->b, head_kv, j);
        const int64_t key = (r->b * p->heads_kv + head_kv) * p->seq_k + j;
        double d_p = 0.0;
        for (int64_t x = 0; x < p->d_v; x++) {
            const double d_o = load(g->d_o.data, p->dtype_o, at_do + x);
            d_p += d_o * load(g->v.data, p->dtype, v + x);
            want->d_v[key * p->d_v + x] += weight * d_o;
        }
        const double d_s = weight * (d_p - delta);
        const double share = p->softcap > 0.0f ? r->capped[j] / (double)p->softcap : 0.0;
        const double d_x = d_s * (1.0 - share * share) * (double)p->scale;
        for (int64_t x = 0; x < p->d_qk; x++) {
            d_q[x] += d_x * load(g->k.data, p->dtype, k + x);
            want->d_k[key * p->d_qk + x] += d_x * load(g->q.data, p->dtype, at_q + x);
        }
        if (p->gradients & ATT_D_BIAS)
            want->d_bias[at_bias(&p->grad_bias, r->b, r->h, r->i, j)] += d_s;
        if (p->gradients & ATT_D_ALIBI)
            want->d_alibi[(p->alibi_stride_batch ? r->b * p->alibi_stride_batch : 0) + r->h] -=
                d_s * fabs((double)(diagonal(g, r->b, r->i) - j));
    }
    if (p->gradients & ATT_D_SINKS) /* the sink has the rest of the weight */
        want->d_sinks[r->h] -= (1.0 - weights) * delta;
}

static void forget(double *numbers, int64_t n) {
    for (int64_t x = 0; x < n; x++)
        numbers[x] = 0.0;
}

void gradients_answer(gradients *g) {
    const att_problem *p = &g->p;
    forget(g->want.d_q, p->batch * p->heads_q * p->seq_q * p->d_qk);
    forget(g->want.d_k, p->batch * p->heads_kv * p->seq_k * p->d_qk);
    forget(g->want.d_v, p->batch * p->heads_kv * p->seq_k * p->d_v);
    forget(g->want.d_bias, g->bias_count);
    forget(g->want.d_sinks, p->heads_q);
    forget(g->want.d_alibi, g->slope_count);
    row r = {.g = g, .capped = zeros(p->seq_k), .weight = zeros(p->seq_k), .o = zeros(p->d_v)};
    for (r.b = 0; r.b < p->batch; r.b++)
        for (r.h = 0; r.h < p->heads_q; r.h++)
            for (r.i = 0; r.i < gradients_rows(g, r.b); r.i++) {
                r.keys = gradients_keys(g, r.b);
                forward_row(&r);
                backward_row(&r, &g->want);
            }
    free(r.capped);
    free(r.weight);
    free(r.o);
}

void gradients_open(gradients *g, const att_problem *p, const gradient_lengths *lengths,
                    uint64_t seed, float loud) {
    uint64_t random = seed + 1;
    *g = (gradients){.p = *p};
    if (lengths)
        g->lengths = *lengths;
    const bool pq = packed_q(g), pk = packed_k(g);
    const size_t bias =
        p->features & ATT_BIAS ? reach(&p->bias, p->batch, p->heads_q, p->seq_q, p->seq_k) : 0;
    const bool d_bias_asked = p->gradients & ATT_D_BIAS;
    const size_t d_bias =
        d_bias_asked ? reach(&p->grad_bias, p->batch, p->heads_q, p->seq_q, p->seq_k) : 0;
    const size_t slopes = p->features & ATT_ALIBI
                              ? (size_t)((p->batch - 1) * p->alibi_stride_batch + p->heads_q)
                              : 0;
    g->bias_count = (int64_t)d_bias;
    g->slope_count = (int64_t)slopes;
    const size_t heads = (size_t)p->heads_q, number = sizeof(float);
    const att_dtype out = p->dtype_grad;
    const att_dtype bias_out = out == ATT_F32 ? ATT_F32 : p->bias_dtype;
    const int64_t b = p->batch, hq = p->heads_q, hk = p->heads_kv, sq = p->seq_q, sk = p->seq_k,
                  tq = p->total_q, tk = p->total_k;
    g->q = open_rows(&p->q, pq, b, hq, sq, tq, p->d_qk, p->dtype);
    g->k = open_rows(&p->k, pk, b, hk, sk, tk, p->d_qk, p->dtype);
    g->v = open_rows(&p->v, pk, b, hk, sk, tk, p->d_v, p->dtype);
    g->o = open_rows(&p->o, pq, b, hq, sq, tq, p->d_v, p->dtype_o);
    g->d_o = open_rows(&p->grad_o, pq, b, hq, sq, tq, p->d_v, p->dtype_o);
    g->lse = open_rows(&p->lse, pq, b, hq, sq, tq, 1, ATT_F32);
    g->bias = open_array(bias, bias ? att_dtype_size(p->bias_dtype) : 1);
    g->alibi = open_array(slopes, number);
    g->sinks = open_array(p->features & ATT_SINKS ? heads : 0, number);
    g->d_q = open_rows(&p->grad_q, pq, b, hq, sq, tq, p->d_qk, out);
    g->d_k = open_rows(&p->grad_k, pk, b, hk, sk, tk, p->d_qk, out);
    g->d_v = open_rows(&p->grad_v, pk, b, hk, sk, tk, p->d_v, out);
    g->d_bias = open_array(d_bias, d_bias ? att_dtype_size(bias_out) : 1);
    g->d_sinks = open_array(p->gradients & ATT_D_SINKS ? heads : 0, number);
    g->d_alibi = open_array(p->gradients & ATT_D_ALIBI ? slopes : 0, number);
    g->want = (gradient_answers){.d_q = zeros(b * hq * sq * p->d_qk),
                                 .d_k = zeros(b * hk * sk * p->d_qk),
                                 .d_v = zeros(b * hk * sk * p->d_v),
                                 .d_bias = zeros((int64_t)d_bias),
                                 .d_sinks = zeros(hq),
                                 .d_alibi = zeros((int64_t)slopes)};
    fill(g, &random, loud);
    gradients_answer(g);
    const uint32_t f = p->features;
    g->args = (att_args){.size = sizeof g->args,
                         .q = g->q.data,
                         .k = g->k.data,
                         .v = g->v.data,
                         .o = g->o.data,
                         .lse = floats(&g->lse),
                         .alibi = f & ATT_ALIBI ? floats(&g->alibi) : NULL,
                         .bias = f & ATT_BIAS ? g->bias.data : NULL,
                         .sinks = f & ATT_SINKS ? floats(&g->sinks) : NULL,
                         .cu_seqlens_q = f & ATT_CU_SEQLENS_Q ? g->lengths.cu_q : NULL,
                         .cu_seqlens_k = f & ATT_CU_SEQLENS_K ? g->lengths.cu_k : NULL,
                         .lens_k = f & ATT_LENS_K ? g->lengths.lens_k : NULL,
                         .starts_k = f & ATT_STARTS_K ? g->lengths.starts_k : NULL,
                         .q_offsets = f & ATT_Q_OFFSETS ? g->lengths.q_offsets : NULL,
                         .k_offsets = f & ATT_K_OFFSETS ? g->lengths.k_offsets : NULL,
                         .launch = &g->launch,
                         .d_o = g->d_o.data,
                         .d_q = g->d_q.data,
                         .d_k = g->d_k.data,
                         .d_v = g->d_v.data,
                         .d_bias = d_bias_asked ? g->d_bias.data : NULL,
                         .d_sinks = p->gradients & ATT_D_SINKS ? floats(&g->d_sinks) : NULL,
                         .d_alibi = p->gradients & ATT_D_ALIBI ? floats(&g->d_alibi) : NULL};
}

static void each_array(gradients *g, void (*visit)(guarded *array)) {
    guarded *all[] = {&g->q,   &g->k,    &g->v,      &g->o,       &g->lse,
                      &g->d_o, &g->bias, &g->alibi,  &g->sinks,   &g->d_q,
                      &g->d_k, &g->d_v,  &g->d_bias, &g->d_sinks, &g->d_alibi};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        visit(all[i]);
}

void gradients_close(gradients *g) {
    each_array(g, guard_close);
    free(g->want.d_q);
    free(g->want.d_k);
    free(g->want.d_v);
    free(g->want.d_bias);
    free(g->want.d_sinks);
    free(g->want.d_alibi);
}

void gradients_poison(gradients *g) {
    guarded *outputs[] = {&g->d_q, &g->d_k, &g->d_v, &g->d_bias, &g->d_sinks, &g->d_alibi};
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        memset(outputs[i]->data, 0xff, outputs[i]->bytes);
}

att_status gradients_run(gradients *g, att_context *ctx) {
    gradients_poison(g);
    att_plan *plan;
    att_status status = att_backward_plan_create(&plan, ctx, &g->p);
    if (status != ATT_OK)
        return status;
    guarded workspace = guard_open(att_plan_workspace(plan), ATT_WORKSPACE_ALIGN);
    memset(workspace.data, 0x3f, workspace.bytes); /* 0.75: NaN would be computed again */
    status = att_backward_run(plan, &g->args, workspace.data, NULL);
    assert_true(guard_intact(&workspace));
    guard_close(&workspace);
    att_plan_destroy(plan);
    return status;
}

static double largest(const double *want, int64_t n) {
    double most = 0.0;
    for (int64_t x = 0; x < n; x++)
        most = fmax(most, fabs(want[x]));
    return most;
}

static void check_row(const void *base, att_dtype dtype, int64_t at, const double *want,
                      int64_t n, double tolerance) {
    for (int64_t x = 0; x < n; x++)
        assert_near((double)att_load(base, dtype, at + x), want[x], tolerance);
}

double gradients_unit(const att_problem *p) {
    static const double units[] = {[ATT_F32] = 2e-5, [ATT_F16] = 2e-3, [ATT_BF16] = 2e-2};
    return fmax(units[p->dtype], units[p->dtype_o]);
}

void gradients_check(const gradients *g, double unit) {
    const att_problem *p = &g->p;
    const int64_t rows = p->batch * p->heads_q * p->seq_q,
                  keys = p->batch * p->heads_kv * p->seq_k;
    const double to_q = unit * (0.1 + largest(g->want.d_q, rows * p->d_qk));
    const double to_k = unit * (0.1 + largest(g->want.d_k, keys * p->d_qk));
    const double to_v = unit * (0.1 + largest(g->want.d_v, keys * p->d_v));
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < gradients_rows(g, b); i++)
                check_row(g->d_q.data, p->dtype_grad, gradients_at_q(g, &p->grad_q, b, h, i),
                          g->want.d_q + ((b * p->heads_q + h) * p->seq_q + i) * p->d_qk,
                          p->d_qk, to_q);
        for (int64_t h = 0; h < p->heads_kv; h++)
            for (int64_t j = 0; j < gradients_keys(g, b); j++) {
                const int64_t key = (b * p->heads_kv + h) * p->seq_k + j;
                check_row(g->d_k.data, p->dtype_grad, gradients_at_k(g, &p->grad_k, b, h, j),
                          g->want.d_k + key * p->d_qk, p->d_qk, to_k);
                check_row(g->d_v.data, p->dtype_grad, gradients_at_k(g, &p->grad_v, b, h, j),
                          g->want.d_v + key * p->d_v, p->d_v, to_v);
            }
    }
    if (p->gradients & ATT_D_BIAS) {
        const att_dtype out = p->dtype_grad == ATT_F32 ? ATT_F32 : p->bias_dtype;
        const int64_t n = (int64_t)(g->d_bias.bytes / att_dtype_size(out));
        const double finer = out == ATT_BF16  ? fmax(unit, 4e-3)
                             : out == ATT_F16 ? fmax(unit, 1e-3)
                                              : unit;
        const double tolerance = finer * (1.0 + largest(g->want.d_bias, n));
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t h = 0; h < p->heads_q; h++)
                for (int64_t i = 0; i < p->seq_q; i++)
                    for (int64_t j = 0; j < p->seq_k; j++) {
                        const int64_t at = at_bias(&p->grad_bias, b, h, i, j);
                        check_row(g->d_bias.data, out, at, g->want.d_bias + at, 1, tolerance);
                    }
    }
    if (p->gradients & ATT_D_SINKS)
        check_row(g->d_sinks.data, ATT_F32, 0, g->want.d_sinks, p->heads_q,
                  unit * (1.0 + largest(g->want.d_sinks, p->heads_q)));
    for (int64_t b = 0; p->gradients & ATT_D_ALIBI && b < p->batch; b++) {
        const int64_t at = b * p->alibi_stride_batch;
        check_row(g->d_alibi.data, ATT_F32, at, g->want.d_alibi + at, p->heads_q,
                  unit * (10.0 + largest(g->want.d_alibi + at, p->heads_q)));
    }
    assert_true(guard_intact(&g->d_q) && guard_intact(&g->d_k) && guard_intact(&g->d_v));
    assert_true(guard_intact(&g->d_bias) && guard_intact(&g->d_sinks) &&
                guard_intact(&g->d_alibi));
}
