/* moe_lab.c: mixtures of experts as an operation of the laboratory. */
#include "lab/moe/moe_lab.h"

#include "base/checked.h"
#include "lab/moe/moe_names.h"
#include "moe/ref/moe_oracle.h"
#include "moe/ref/moe_plain.h"
#include "moe/ref/moe_ref_route.h"

static const att_moe_problem *of(const lab_spec *spec) {
    return &spec->moe.problem;
}

json_t *lab_moe_shape(const lab_spec *spec) {
    const att_moe_problem *p = of(spec);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s}", "operation", "moe",
                     "tokens", (json_int_t)p->tokens, "hidden", (json_int_t)p->hidden, "inner",
                     (json_int_t)p->inner, "experts", (json_int_t)p->experts,
                     "experts_per_token", (json_int_t)p->experts_per_token, "dtype",
                     lab_name_of(lab_dtype_names, (int)p->dtype), "dtype_y",
                     lab_name_of(lab_dtype_names, (int)p->dtype_y), "activation",
                     lab_name_of(lab_moe_activation_names, (int)p->activation), "routing",
                     lab_name_of(lab_moe_routing_names, (int)p->routing));
}

static const void *problem(const lab_spec *spec) {
    return of(spec);
}

static att_dtype dtype(const lab_spec *spec) {
    return of(spec)->dtype;
}

static bool is_void(const lab_spec *spec) {
    return of(spec)->tokens == 0;
}

/* Counts exist even without tokens: they are zeros. */
static bool is_empty(const lab_spec *spec) {
    return is_void(spec) && !(of(spec)->features & ATT_MOE_COUNTS);
}

static att_status plan(att_plan **out, att_context *ctx, const lab_spec *spec) {
    return att_moe_plan_create(out, ctx, of(spec));
}

static att_status run(const att_plan *p, const lab_args *args, void *workspace, void *stream) {
    return att_moe_run(p, &args->moe, workspace, stream);
}

static att_status explain(att_context *ctx, const lab_spec *spec, char *buf, size_t n) {
    return att_moe_explain(ctx, of(spec), buf, n);
}

static void record(lab_args *args, att_launch *launch) {
    args->moe.launch = launch;
}

/* ----------------------------------------------------------------------- rows */

enum { Y, IDS, WEIGHTS, COUNTS, OUTPUTS };

static lab_outputs outputs(const lab_spec *spec) {
    const att_moe_problem *p = of(spec);
    const uint32_t unasked = ~p->features;
    const int64_t k = p->experts_per_token;
    return (lab_outputs){
        .count = OUTPUTS,
        .list = {[Y] = {.name = "y", .dtype = p->dtype_y, .d = p->hidden, .step = 1},
                 [IDS] = {.name = "ids",
                          .absent = unasked & ATT_MOE_IDS,
                          .is_integer = true,
                          .dtype = ATT_F32,
                          .d = k,
                          .step = 1},
                 [WEIGHTS] = {.name = "weights",
                              .absent = unasked & ATT_MOE_WEIGHTS,
                              .dtype = ATT_F32,
                              .d = k,
                              .step = 1},
                 [COUNTS] = {.name = "counts",
                             .set = LAB_MOE_SET_COUNTS,
                             .absent = unasked & ATT_MOE_COUNTS,
                             .is_integer = true,
                             .dtype = ATT_F32,
                             .d = p->experts + 1,
                             .step = 1}}};
}

/* Fewer rows to judge if each takes much work. */
static int64_t fewest_of(double work, int64_t rows) {
    static const double most = 1e10;
    const double each = rows > 0 ? work / (double)rows : 0.0;
    return each * LAB_FEWEST_ROWS <= most ? LAB_FEWEST_ROWS
                                          : att_max(1, (int64_t)(most / each));
}

static lab_row_set set(const lab_spec *spec, int which) {
    const att_moe_problem *p = of(spec);
    lab_row_set s = {.batch = 1, .heads = 1};
    if (which == LAB_MOE_SET_TOKENS) {
        s.work = lab_spec_flops(spec) / 2.0;
        s.fewest = fewest_of(s.work, p->tokens);
    } else {
        s.work = (double)p->tokens * (double)p->experts * (double)p->experts_per_token;
        s.fewest = 1;
    }
    return s;
}

static int64_t rows(const lab_spec *spec, const lab_args *args, int which, int64_t b) {
    (void)args, (void)b;
    return which == LAB_MOE_SET_TOKENS ? of(spec)->tokens : 1;
}

static void *answer(const lab_spec *spec, const lab_args *args, int output, lab_row row) {
    const att_moe_problem *p = of(spec);
    const att_moe_args *a = &args->moe;
    switch (output) {
    case Y:
        return (char *)a->y + row.i * p->y_row * (int64_t)att_dtype_size(p->dtype_y);
    case IDS:
        return a->ids + row.i * p->experts_per_token;
    case WEIGHTS:
        return a->weights + row.i * p->experts_per_token;
    default:
        return a->counts;
    }
}

/* --------------------------------------------------------------- what is right */

static int64_t scratch(const lab_spec *spec, const lab_args *args) {
    (void)args;
    return att_moe_ref_scratch(of(spec)) + of(spec)->experts_per_token;
}

static void oracle(const lab_spec *spec, const lab_args *args, lab_row row, double *room,
                   double *values, double *sizes) {
    const att_moe_problem *p = of(spec);
    int32_t *ids = (int32_t *)(void *)room;
    double *rest = room + p->experts_per_token, *as_values = values + p->hidden;
    (void)sizes;
    if (row.set == LAB_MOE_SET_COUNTS) {
        att_moe_ref_counts(p, &args->moe, (float *)(void *)rest, ids, values);
        return;
    }
    att_moe_ref_token(p, &args->moe, row.i, rest, values, ids,
                      as_values + p->experts_per_token);
    for (int64_t j = 0; j < p->experts_per_token; j++)
        as_values[j] = (double)ids[j];
}

/* Counts are integers; use the oracle's. */
static void plain(const lab_spec *spec, const lab_args *args, lab_row row, int order,
                  float *room, float *values) {
    const att_moe_problem *p = of(spec);
    int32_t *ids = (int32_t *)(void *)room;
    float *rest = room + p->experts_per_token, *as_values = values + p->hidden;
    if (row.set == LAB_MOE_SET_COUNTS) {
        for (int64_t e = 0; e <= p->experts; e++)
            values[e] = 0.0f;
        return;
    }
    att_moe_plain_token(p, &args->moe, row.i, (att_moe_plain_order)order, rest, values, ids,
                        as_values + p->experts_per_token);
    for (int64_t j = 0; j < p->experts_per_token; j++)
        as_values[j] = (float)ids[j];
}

const lab_operation lab_operation_moe = {
    .library = &att_operation_moe,
    .prefix = "moe:",
    .modifiers = lab_moe_modifiers,
    .init = lab_moe_init,
    .finish = lab_moe_finish,
    .print = lab_moe_print,
    .shape = lab_moe_shape,
    .problem = problem,
    .dtype = dtype,
    .is_empty = is_empty,
    .work = lab_moe_work,
    .plan = plan,
    .run = run,
    .explain = explain,
    .record = record,
    .sizes = lab_moe_sizes,
    .point = lab_moe_point,
    .fill = lab_moe_fill,
    .locate = lab_moe_locate,
    .translate = lab_moe_translate,
    .turnable = lab_moe_turnable,
    .turn = lab_moe_turn,
    .drawn = lab_moe_drawn,
    .sets = LAB_MOE_SETS,
    .is_void = is_void,
    .outputs = outputs,
    .set = set,
    .rows = rows,
    .answer = answer,
    .scratch = scratch,
    .orders = ATT_MOE_PLAIN_ORDERS,
    .oracle = oracle,
    .plain = plain,
};
