/* merge_lab.c: merge as an operation of the laboratory. */
#include "lab/merge/merge_lab.h"

#include "lab/problem/spec_names.h"
#include "merge/ref/merge_oracle.h"

static const att_merge_problem *of(const lab_spec *spec) {
    return &spec->merge.problem;
}

static json_t *shape(const lab_spec *spec) {
    const att_merge_problem *p = of(spec);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "operation", "merge", "parts",
                     (json_int_t)p->parts, "batch", (json_int_t)p->batch, "heads",
                     (json_int_t)p->heads, "seq", (json_int_t)p->seq, "d", (json_int_t)p->d,
                     "dtype", lab_name_of(lab_dtype_names, (int)p->dtype), "dtype_o",
                     lab_name_of(lab_dtype_names, (int)p->dtype_o));
}

static const void *problem(const lab_spec *spec) {
    return of(spec);
}

static att_dtype dtype(const lab_spec *spec) {
    return of(spec)->dtype;
}

static double count_rows(const lab_spec *spec) {
    const att_merge_problem *p = of(spec);
    return (double)p->batch * (double)p->heads * (double)p->seq;
}

static bool is_empty(const lab_spec *spec) {
    return count_rows(spec) == 0.0;
}

/* A multiply-add per element of a part, an exponential per part of a row. */
static void work(lab_work *w, const lab_spec *spec) {
    const att_merge_problem *p = of(spec);
    const double parts = (double)p->parts, d = (double)p->d;
    const double out = d * (double)att_dtype_size(p->dtype_o) +
                       (p->features & ATT_LSE ? (double)sizeof(float) : 0.0);
    w->pairs = count_rows(spec) * parts;
    w->flops = 2.0 * w->pairs * d;
    w->bytes = w->pairs * (d * (double)att_dtype_size(p->dtype) + (double)sizeof(float)) +
               count_rows(spec) * out;
}

static att_status plan(att_plan **out, att_context *ctx, const lab_spec *spec) {
    return att_merge_plan_create(out, ctx, of(spec));
}

static att_merge_args library_args(const lab_merge_args *a) {
    return (att_merge_args){.size = sizeof(att_merge_args),
                            .part_o = a->part_o,
                            .part_lse = a->part_lse,
                            .o = a->o,
                            .lse = a->lse,
                            .launch = a->launch};
}

static att_status run(const att_plan *p, const lab_args *args, void *workspace, void *stream) {
    const att_merge_args a = library_args(&args->merge);
    return att_merge_run(p, &a, workspace, stream);
}

static att_status explain(att_context *ctx, const lab_spec *spec, char *buf, size_t n) {
    return att_merge_explain(ctx, of(spec), buf, n);
}

static void record(lab_args *args, att_launch *launch) {
    args->merge.launch = launch;
}

static void translate(lab_args *to, const lab_args *from,
                      void *(*map)(const void *context, const void *address),
                      const void *context) {
    const lab_merge_args *a = &from->merge;
    to->merge = *a;
    for (int i = 0; i < ATT_MERGE_PARTS_MAX; i++) {
        to->merge.part_o[i] = map(context, a->part_o[i]);
        to->merge.part_lse[i] = map(context, a->part_lse[i]);
    }
    to->merge.o = map(context, a->o);
    to->merge.lse = map(context, a->lse);
}

/* One set of rows: of O, and of its log-sums. */
enum { O, LSE };

static lab_outputs outputs(const lab_spec *spec) {
    const att_merge_problem *p = of(spec);
    return (lab_outputs){
        .count = 2,
        .list = {[O] = {.name = "o", .dtype = p->dtype_o, .d = p->d, .step = 1},
                 [LSE] = {.name = "lse",
                          .absent = !(p->features & ATT_LSE),
                          .is_log = true,
                          .dtype = ATT_F32,
                          .d = 1,
                          .step = 1}}};
}

static lab_row_set set(const lab_spec *spec, int only) {
    (void)only;
    return (lab_row_set){.batch = of(spec)->batch,
                         .heads = of(spec)->heads,
                         .work = lab_spec_flops(spec) / 2.0,
                         .fewest = LAB_FEWEST_ROWS};
}

static int64_t rows(const lab_spec *spec, const lab_args *args, int only, int64_t b) {
    (void)args, (void)only, (void)b;
    return of(spec)->seq;
}

static void *answer(const lab_spec *spec, const lab_args *args, int output, lab_row row) {
    const att_merge_problem *p = of(spec);
    const lab_merge_args *a = &args->merge;
    if (output == LSE)
        return a->lse + lab_merge_index(&p->lse, row);
    return (char *)a->o + lab_merge_index(&p->o, row) * (int64_t)att_dtype_size(p->dtype_o);
}

static int64_t scratch(const lab_spec *spec, const lab_args *args) {
    (void)spec, (void)args;
    return 0;
}

static void oracle(const lab_spec *spec, const lab_args *args, lab_row row, double *none,
                   double *values, double *sizes) {
    const att_merge_args a = library_args(&args->merge);
    (void)none, (void)sizes;
    att_merge_ref_row(of(spec), &a, row.b, row.h, row.i, values, values + of(spec)->d);
}

static void plain(const lab_spec *spec, const lab_args *args, lab_row row, int order,
                  float *none, float *values) {
    const att_merge_args a = library_args(&args->merge);
    (void)none, (void)order;
    att_merge_plain_row(of(spec), &a, row.b, row.h, row.i, values, values + of(spec)->d);
}

const lab_operation lab_operation_merge = {
    .library = &att_operation_merge,
    .prefix = "merge:",
    .modifiers = lab_merge_modifiers,
    .init = lab_merge_init,
    .finish = lab_merge_finish,
    .print = lab_merge_print,
    .shape = shape,
    .problem = problem,
    .dtype = dtype,
    .is_empty = is_empty,
    .work = work,
    .plan = plan,
    .run = run,
    .explain = explain,
    .record = record,
    .sizes = lab_merge_sizes,
    .point = lab_merge_point,
    .fill = lab_merge_fill,
    .locate = lab_merge_locate,
    .translate = translate,
    .turnable = lab_merge_turnable,
    .turn = lab_merge_turn,
    .drawn = lab_merge_drawn,
    .sets = 1,
    .is_void = is_empty,
    .outputs = outputs,
    .set = set,
    .rows = rows,
    .answer = answer,
    .scratch = scratch,
    .orders = 1,
    .oracle = oracle,
    .plain = plain,
};
