/* attention_lab.c: attention as an operation of the laboratory. */
#include "lab/attention/attention_lab.h"

#include "attention/ref/oracle.h"
#include "attention/ref/plain.h"
#include "base/checked.h"
#include "lab/problem/spec_names.h"

static json_t *shape(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "batch",
                     (json_int_t)p->batch, "heads_q", (json_int_t)p->heads_q, "heads_kv",
                     (json_int_t)p->heads_kv, "seq_q", (json_int_t)p->seq_q, "seq_k",
                     (json_int_t)p->seq_k, "d_qk", (json_int_t)p->d_qk, "d_v",
                     (json_int_t)p->d_v, "dtype", lab_name_of(lab_dtype_names, (int)p->dtype),
                     "dtype_o", lab_name_of(lab_dtype_names, (int)p->dtype_o));
}

static const void *problem(const lab_spec *spec) {
    return &spec->problem;
}

static att_dtype dtype(const lab_spec *spec) {
    return spec->problem.dtype;
}

static att_status plan(att_plan **out, att_context *ctx, const lab_spec *spec) {
    return att_plan_create(out, ctx, &spec->problem);
}

static att_status run(const att_plan *p, const lab_args *args, void *workspace, void *stream) {
    return att_plan_run(p, &args->attention, workspace, stream);
}

static att_status explain(att_context *ctx, const lab_spec *spec, char *buf, size_t n) {
    return att_context_explain(ctx, &spec->problem, buf, n);
}

static void record(lab_args *args, att_launch *launch) {
    args->attention.launch = launch;
}

void lab_attention_translate(lab_args *to, const lab_args *from,
                             void *(*map)(const void *context, const void *address),
                             const void *context) {
    const att_args *a = &from->attention;
    to->attention = *a;
    to->attention.q = map(context, a->q);
    to->attention.k = map(context, a->k);
    to->attention.v = map(context, a->v);
    to->attention.o = map(context, a->o);
    to->attention.lse = map(context, a->lse);
    to->attention.alibi = map(context, a->alibi);
    to->attention.bias = map(context, a->bias);
    to->attention.sinks = map(context, a->sinks);
    to->attention.cu_seqlens_q = map(context, a->cu_seqlens_q);
    to->attention.cu_seqlens_k = map(context, a->cu_seqlens_k);
    to->attention.lens_k = map(context, a->lens_k);
    to->attention.starts_k = map(context, a->starts_k);
    to->attention.q_offsets = map(context, a->q_offsets);
    to->attention.k_offsets = map(context, a->k_offsets);
    to->attention.page_table = map(context, a->page_table);
}

static bool is_void(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    return p->batch == 0 || p->seq_q == 0 || (p->features & ATT_CU_SEQLENS_Q && !p->total_q);
}

/* One set of rows: of O, and of its log-sums. */
enum { O, LSE };

static lab_outputs outputs(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    return (lab_outputs){
        .count = 2,
        .list = {[O] = {.name = "o", .dtype = p->dtype_o, .d = p->d_v, .step = 1},
                 [LSE] = {.name = "lse",
                          .absent = !(p->features & ATT_LSE),
                          .is_log = true,
                          .dtype = ATT_F32,
                          .d = 1,
                          .step = 1}}};
}

/* The work of a row that sees all keys is d_qk + d_v per key; flops count each twice. */
static lab_row_set set(const lab_spec *spec, int only) {
    (void)only;
    return (lab_row_set){.batch = spec->problem.batch,
                         .heads = spec->problem.heads_q,
                         .work = lab_spec_flops(spec) / 2.0,
                         .fewest = LAB_FEWEST_ROWS};
}

static int64_t rows(const lab_spec *spec, const lab_args *args, int only, int64_t b) {
    (void)only;
    return att_ref_len_q(&spec->problem, &args->attention, b);
}

static void *answer(const lab_spec *spec, const lab_args *args, int output, lab_row row) {
    const att_problem *p = &spec->problem;
    const att_args *a = &args->attention;
    if (output == LSE)
        return a->lse + att_ref_index_lse(p, a, row.b, row.h, row.i);
    return (char *)a->o +
           att_ref_index_o(p, a, row.b, row.h, row.i) * (int64_t)att_dtype_size(p->dtype_o);
}

/* The logits of a row. */
static int64_t scratch(const lab_spec *spec, const lab_args *args) {
    int64_t longest = 0;
    for (int64_t b = 0; b < spec->problem.batch && !lab_spec_is_empty(spec); b++)
        longest = att_max(longest, att_ref_len_k(&spec->problem, &args->attention, b));
    return longest;
}

static void oracle(const lab_spec *spec, const lab_args *args, lab_row row, double *logits,
                   double *values, double *sizes) {
    (void)sizes;
    att_ref_row(&spec->problem, &args->attention, row.b, row.h, row.i, logits, values,
                values + spec->problem.d_v);
}

static void plain(const lab_spec *spec, const lab_args *args, lab_row row, int order,
                  float *logits, float *values) {
    att_plain_row(&spec->problem, &args->attention, row.b, row.h, row.i, (att_plain_order)order,
                  logits, values, values + spec->problem.d_v);
}

const lab_operation lab_operation_attention = {
    .library = &att_operation_attention,
    .prefix = "",
    .modifiers = lab_attention_modifiers,
    .init = lab_attention_init,
    .finish = lab_attention_finish,
    .print = lab_attention_print,
    .shape = shape,
    .problem = problem,
    .dtype = dtype,
    .is_empty = lab_spec_is_empty,
    .work = lab_attention_work,
    .plan = plan,
    .run = run,
    .explain = explain,
    .record = record,
    .sizes = lab_attention_sizes,
    .point = lab_attention_point,
    .fill = lab_attention_fill,
    .locate = lab_attention_locate,
    .translate = lab_attention_translate,
    .turnable = lab_attention_turnable,
    .turn = lab_attention_turn,
    .drawn = lab_attention_drawn,
    .sets = 1,
    .is_void = is_void,
    .outputs = outputs,
    .set = set,
    .rows = rows,
    .answer = answer,
    .scratch = scratch,
    .orders = ATT_PLAIN_ORDERS,
    .oracle = oracle,
    .plain = plain,
};
