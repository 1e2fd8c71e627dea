/* backward_lab.c: the gradients of attention as an operation of the laboratory. */
#include "lab/backward/backward_lab.h"

#include "attention/ref/oracle.h"
#include "backward/backward.h"
#include "backward/ref/backward_oracle.h"
#include "backward/ref/backward_plain.h"
#include "base/checked.h"
#include "lab/problem/spec_names.h"

static json_t *shape(const lab_spec *spec) {
    json_t *json = lab_operation_attention.shape(spec);
    json_object_set_new(json, "operation", json_string("backward"));
    json_object_set_new(
        json, "dtype_grad",
        json_string(lab_name_of(lab_dtype_names, (int)spec->problem.dtype_grad)));
    return json;
}

static const void *problem(const lab_spec *spec) {
    return &spec->problem;
}

static att_dtype dtype(const lab_spec *spec) {
    return spec->problem.dtype;
}

static att_status plan(att_plan **out, att_context *ctx, const lab_spec *spec) {
    return att_backward_plan_create(out, ctx, &spec->problem);
}

static att_status run(const att_plan *p, const lab_args *args, void *workspace, void *stream) {
    return att_backward_run(p, &args->attention, workspace, stream);
}

static att_status explain(att_context *ctx, const lab_spec *spec, char *buf, size_t n) {
    return att_backward_explain(ctx, &spec->problem, buf, n);
}

static void record(lab_args *args, att_launch *launch) {
    args->attention.launch = launch;
}

static void translate(lab_args *to, const lab_args *from,
                      void *(*map)(const void *context, const void *address),
                      const void *context) {
    const att_args *a = &from->attention;
    lab_attention_translate(to, from, map, context);
    to->attention.d_o = map(context, a->d_o);
    to->attention.d_q = map(context, a->d_q);
    to->attention.d_k = map(context, a->d_k);
    to->attention.d_v = map(context, a->d_v);
    to->attention.d_bias = map(context, a->d_bias);
    to->attention.d_sinks = map(context, a->d_sinks);
    to->attention.d_alibi = map(context, a->d_alibi);
}

/* Gradients of sinks, and of slopes that the batch shares, exist even without rows or keys:
 * they are empty sums. */
static bool is_empty(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const bool sums =
        p->gradients & ATT_D_SINKS || (p->gradients & ATT_D_ALIBI && !spec->alibi_per_batch);
    return lab_spec_is_empty(spec) && !sums;
}

/* ---------------------------------------------------------------- rows of gradients */

enum { D_Q, D_K, D_V, D_BIAS, D_SINKS, D_ALIBI, OUTPUTS };

/* The number of indices of a bias dimension that have their own elements. */
static int64_t own_indices(bool broadcast, int64_t size) {
    return broadcast ? att_min(size, 1) : size;
}

static lab_outputs outputs(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const uint32_t unasked = ~p->gradients;
    const int64_t keys = own_indices(spec->bias_broadcast[3], p->seq_k);
    const att_dtype grad = p->dtype_grad, bias = att_backward_bias_dtype(p);
    return (lab_outputs){
        .count = OUTPUTS,
        .list = {
            [D_Q] = {"d_q", LAB_SET_QUERIES, false, true, false, grad, p->d_qk, 1, false},
            [D_K] = {"d_k", LAB_SET_KEYS, false, true, false, grad, p->d_qk, 1, false},
            [D_V] = {"d_v", LAB_SET_KEYS, false, true, false, grad, p->d_v, 1, false},
            [D_BIAS] = {"d_bias", LAB_SET_BIAS, unasked & ATT_D_BIAS, true, false, bias, keys,
                        keys > 1 ? p->grad_bias.col : 1, false},
            [D_SINKS] = {"d_sinks", LAB_SET_SINKS, unasked & ATT_D_SINKS, true, false, ATT_F32,
                         1, 1, false},
            [D_ALIBI] = {"d_alibi", LAB_SET_SLOPES, unasked & ATT_D_ALIBI, true, false, ATT_F32,
                         1, 1, false},
        }};
}

/* Fewer rows to judge if each takes much work. */
static int64_t fewest_of(double work, double rows) {
    static const double most = 1e10;
    const double each = rows > 0.0 ? work / rows : 0.0;
    return each * LAB_FEWEST_ROWS <= most ? LAB_FEWEST_ROWS
                                          : att_max(1, (int64_t)(most / each));
}

static lab_row_set set(const lab_spec *spec, int which) {
    const att_problem *p = &spec->problem;
    const bool *one = spec->bias_broadcast;
    const double d_qk = (double)p->d_qk, d_v = (double)p->d_v;
    lab_work work;
    lab_attention_work(&work, spec);
    lab_row_set s = {.batch = p->batch, .heads = p->heads_q};
    double rows = (double)p->seq_q; /* at most, per head of a batch entry */
    switch (which) {
    case LAB_SET_QUERIES:
        s.work = work.pairs * (2.0 * d_qk + d_v);
        break;
    case LAB_SET_KEYS:
        s.heads = p->heads_kv;
        rows = (double)p->seq_k;
        s.work = work.pairs * (2.0 * d_qk + 3.0 * d_v);
        break;
    case LAB_SET_BIAS:
        s.batch = own_indices(one[0], p->batch);
        s.heads = own_indices(one[1], p->heads_q);
        rows = (double)own_indices(one[2], p->seq_q);
        s.work = work.pairs * (d_qk + 2.0 * d_v);
        break;
    case LAB_SET_SINKS:
        s.batch = 1;
        rows = 1.0;
        s.work = (double)p->batch * (double)p->heads_q * (double)p->seq_q * d_v;
        break;
    default:
        s.batch = spec->alibi_per_batch ? p->batch : 1;
        rows = 1.0;
        s.work = work.pairs * (d_qk + d_v);
        break;
    }
    s.fewest = fewest_of(s.work, rows * (double)s.batch * (double)s.heads);
    return s;
}

static int64_t rows(const lab_spec *spec, const lab_args *args, int which, int64_t b) {
    const att_problem *p = &spec->problem;
    switch (which) {
    case LAB_SET_QUERIES:
        return att_ref_len_q(p, &args->attention, b);
    case LAB_SET_KEYS:
        return att_backward_ref_room_k(p, &args->attention, b);
    case LAB_SET_BIAS:
        return own_indices(spec->bias_broadcast[2], p->seq_q);
    default:
        return 1;
    }
}

static void *answer(const lab_spec *spec, const lab_args *args, int output, lab_row row) {
    const att_problem *p = &spec->problem;
    const att_args *a = &args->attention;
    const int64_t grad = (int64_t)att_dtype_size(p->dtype_grad);
    switch (output) {
    case D_Q:
        return (char *)a->d_q + att_backward_ref_index_d_q(p, a, row.b, row.h, row.i) * grad;
    case D_K:
        return (char *)a->d_k + att_backward_ref_index_d_k(p, a, row.b, row.h, row.i) * grad;
    case D_V:
        return (char *)a->d_v + att_backward_ref_index_d_v(p, a, row.b, row.h, row.i) * grad;
    case D_BIAS:
        return (char *)a->d_bias + att_backward_ref_index_d_bias(p, row.b, row.h, row.i, 0) *
                                       (int64_t)att_dtype_size(att_backward_bias_dtype(p));
    case D_SINKS:
        return a->d_sinks + row.h;
    default:
        return a->d_alibi + row.b * p->alibi_stride_batch + row.h;
    }
}

static int64_t scratch(const lab_spec *spec, const lab_args *args) {
    (void)spec, (void)args;
    return 0;
}

static void put(att_backward_value from, double *value, double *size) {
    *value = from.value;
    *size = from.size;
}

static void oracle(const lab_spec *spec, const lab_args *args, lab_row r, double *none,
                   double *values, double *sizes) {
    const att_problem *p = &spec->problem;
    const att_args *a = &args->attention;
    (void)none;
    switch (r.set) {
    case LAB_SET_QUERIES:
        att_backward_ref_query(p, a, r.b, r.h, r.i, values, sizes);
        break;
    case LAB_SET_KEYS:
        att_backward_ref_key(p, a, r.b, r.h, r.i, values, sizes, values + p->d_qk,
                             sizes + p->d_qk);
        break;
    case LAB_SET_BIAS:
        for (int64_t j = 0; j < own_indices(spec->bias_broadcast[3], p->seq_k); j++)
            put(att_backward_ref_bias(p, a, r.b, r.h, r.i, j), &values[j], &sizes[j]);
        break;
    case LAB_SET_SINKS:
        put(att_backward_ref_sink(p, a, r.h), values, sizes);
        break;
    default:
        put(att_backward_ref_slope(p, a, r.b, r.h), values, sizes);
        break;
    }
}

static void plain(const lab_spec *spec, const lab_args *args, lab_row r, int order, float *none,
                  float *values) {
    const att_problem *p = &spec->problem;
    const att_args *a = &args->attention;
    const att_plain_order by = (att_plain_order)order;
    (void)none;
    switch (r.set) {
    case LAB_SET_QUERIES:
        att_backward_plain_query(p, a, r.b, r.h, r.i, by, values);
        break;
    case LAB_SET_KEYS:
        att_backward_plain_key(p, a, r.b, r.h, r.i, by, values, values + p->d_qk);
        break;
    case LAB_SET_BIAS:
        for (int64_t j = 0; j < own_indices(spec->bias_broadcast[3], p->seq_k); j++)
            values[j] = att_backward_plain_bias(p, a, r.b, r.h, r.i, j, by);
        break;
    case LAB_SET_SINKS:
        *values = att_backward_plain_sink(p, a, r.h, by);
        break;
    default:
        *values = att_backward_plain_slope(p, a, r.b, r.h, by);
        break;
    }
}

const lab_operation lab_operation_backward = {
    .library = &att_operation_backward,
    .prefix = "backward:",
    .modifiers = lab_backward_modifiers,
    .shared_modifiers = lab_attention_modifiers,
    .init = lab_backward_init,
    .finish = lab_backward_finish,
    .print = lab_backward_print,
    .shape = shape,
    .problem = problem,
    .dtype = dtype,
    .is_empty = is_empty,
    .work = lab_backward_work,
    .plan = plan,
    .run = run,
    .explain = explain,
    .record = record,
    .sizes = lab_backward_sizes,
    .point = lab_backward_point,
    .fill = lab_backward_fill,
    .locate = lab_backward_locate,
    .translate = translate,
    .turnable = lab_backward_turnable,
    .turn = lab_backward_turn,
    .drawn = lab_backward_drawn,
    .sets = LAB_BACKWARD_SETS,
    .is_void = is_empty,
    .outputs = outputs,
    .set = set,
    .rows = rows,
    .answer = answer,
    .scratch = scratch,
    .orders = ATT_PLAIN_ORDERS,
    .oracle = oracle,
    .plain = plain,
};
