/* api_calls.c: what a C caller may do, right and wrong. */
#include "tests/fuzz/api_calls.h"

#include <stdio.h>
#include <string.h>

void api_check_error(att_status status) {
    const att_error *e = att_last_error();
    if (status < ATT_E_ARG || status > ATT_E_CUDA)
        finding("status %d is none", (int)status);
    if (e->status != status)
        finding("status %s, but the error is %s", att_status_name(status),
                att_status_name(e->status));
    if (!memchr(e->text, 0, sizeof e->text) || !memchr(e->field, 0, sizeof e->field) ||
        !e->text[0])
        finding("%s without a text", att_status_name(status));
    const bool names = status != ATT_E_MEMORY && status != ATT_E_SYSTEM &&
                       status != ATT_E_CUDA && status != ATT_E_DEVICE;
    if (names && !e->field[0])
        finding("%s names no field: %s", att_status_name(status), e->text);
}

/* Whether the driver may cause this result. ATT_E_ARG: a driver that returns
 * CUDA_ERROR_INVALID_VALUE for an address does not know it. */
static bool is_drivers(const api_ground *ground, att_status status) {
    return ground->may_fail &&
           (status == ATT_E_CUDA || status == ATT_E_MEMORY || status == ATT_E_ARG);
}

static void explain(att_context *ctx, const att_problem *p, random_input *in) {
    char text[2048];
    const size_t room = draw_chance(in, 20) ? draw_byte(in) : sizeof text;
    const att_status status = att_context_explain(ctx, p, text, room);
    if (status)
        api_check_error(status);
    else if (!memchr(text, 0, room))
        finding("an explanation without an end");
}

/* A problem in a struct that is shorter or longer than the library's. */
typedef struct padded_problem {
    att_problem problem;
    unsigned char more[32];
} padded_problem;

static att_status create_plan(att_plan **plan, att_context *ctx, padded_problem *p,
                              random_input *in) {
    if (draw_chance(in, 3)) {
        p->problem.size = draw_chance(in, 50) ? draw_byte(in) * 2u : (size_t)draw_odd(in);
        if (p->problem.size > sizeof *p && p->problem.size < (1u << 20))
            p->problem.size = sizeof *p;
        memset(p->more, draw_byte(in) & 1, sizeof p->more);
    }
    if (draw_chance(in, 5))
        explain(ctx, &p->problem, in);
    *plan = (att_plan *)(void *)p; /* the library must overwrite it */
    return att_plan_create(plan, ctx, &p->problem);
}

static void check_launch(const att_launch *launch, const att_plan *plan, bool may_be_idle) {
    if (!launch->kernel ? !may_be_idle : !*launch->kernel)
        finding("a run by %s left no record", att_plan_kernel(plan));
}

/* Run a plan on suitable arrays. */
static void run_attention(const api_ground *ground, const att_plan *plan, attention_case *c,
                          random_input *in) {
    const char *kernel = att_plan_kernel(plan);
    attention_fault fault = FAULT_NONE;
    att_launch launch;
    memset(&launch, 0, sizeof launch);
    if (draw_chance(in, 12))
        fault = attention_spoil(c, in);
    if (fault == FAULT_NONE && attention_lacks_pages(c))
        fault = FAULT_MAYBE;
    if (fault == FAULT_DATA && !ground->is_cpu)
        return;
    if (draw_chance(in, 30))
        c->args.launch = &launch;
    const att_launch *asked = c->args.launch;
    attention_seal(c);
    const att_status status = ground->attend(plan, c);
    if (status)
        api_check_error(status);
    if (is_drivers(ground, status))
        return;
    if (status) {
        if (fault == FAULT_NONE) {
            attention_print(&c->problem);
            finding("a valid run is refused: %s", att_last_error()->text);
        }
        attention_check_untouched(c);
        return;
    }
    if (fault == FAULT_ARGUMENT || fault == FAULT_DATA) {
        attention_print(&c->problem);
        finding("a wrong call is accepted");
    }
    if (asked && fault == FAULT_NONE)
        check_launch(&launch, plan, c->slots[SLOT_O].bytes == 0);
    const double error = ground->weight_error(&c->problem, kernel);
    attention_check(c, error, error >= 0.0 && fault == FAULT_NONE, kernel);
}

static void check_no_plan(const att_plan *plan, att_status status) {
    if (plan)
        finding("a plan that failed is not NULL");
    api_check_error(status);
}

void api_attention(const api_ground *ground, random_input *in) {
    static attention_case c;
    padded_problem p;
    att_plan *plan;
    memset(&p, 0, sizeof p);
    attention_draw(&p.problem, in);
    const bool broken = draw_chance(in, 25);
    if (broken)
        attention_break(&p.problem, in);
    const size_t whole = p.problem.size;
    const att_status status = create_plan(&plan, ground->ctx, &p, in);
    if (status) {
        check_no_plan(plan, status);
        if (!broken && p.problem.size == whole && !is_drivers(ground, status) &&
            !(ground->may_refuse && status == ATT_E_UNSUPPORTED)) {
            attention_print(&p.problem);
            finding("a valid problem is refused: %s", att_last_error()->text);
        }
        return;
    }
    c.problem = p.problem;
    const size_t workspace = att_plan_workspace(plan);
    if (workspace % ATT_WORKSPACE_ALIGN != 0)
        finding("a workspace of %zu bytes", workspace);
    if (p.problem.size == whole &&
        attention_open(&c, in, workspace, ground->is_cpu && draw_chance(in, 40)))
        run_attention(ground, plan, &c, in);
    att_plan_destroy(plan);
}

/* ----------------------------------------------------------------------------- merge */

static void run_merge(const api_ground *ground, const att_plan *plan, merge_case *c,
                      random_input *in) {
    const bool spoiled = draw_chance(in, 10) && merge_spoil(c, in);
    const att_status status = ground->merge(plan, c);
    if (status)
        api_check_error(status);
    if (is_drivers(ground, status))
        return;
    if (status && !spoiled)
        finding("a valid merge is refused: %s", att_last_error()->text);
    if (!status && spoiled)
        finding("a wrong merge is accepted");
    if (status)
        merge_check_untouched(c);
    else if (ground->judges_merge)
        merge_check(c, att_plan_kernel(plan));
}

void api_merge(const api_ground *ground, random_input *in) {
    static merge_case c;
    att_plan *plan = (att_plan *)(void *)&c;
    merge_draw(&c.problem, in);
    const bool broken = draw_chance(in, 25);
    if (broken)
        merge_break(&c.problem, in);
    const att_status status = att_merge_plan_create(&plan, ground->ctx, &c.problem);
    if (status) {
        check_no_plan(plan, status);
        if (!broken && !is_drivers(ground, status) &&
            !(ground->may_refuse && status == ATT_E_UNSUPPORTED))
            finding("a valid merge is refused: %s", att_last_error()->text);
        return;
    }
    if (merge_open(&c, in, att_plan_workspace(plan)))
        run_merge(ground, plan, &c, in);
    att_plan_destroy(plan);
}

/* ------------------------------------------------------------------------------- moe */

static void run_moe(const att_plan *plan, moe_case *c, random_input *in) {
    att_launch launch;
    memset(&launch, 0, sizeof launch);
    const bool spoiled = draw_chance(in, 10) && moe_spoil(c, in);
    c->args.launch = &launch;
    const att_status status = att_moe_run(plan, &c->args, c->workspace, NULL);
    if (status)
        api_check_error(status);
    if (status && !spoiled)
        finding("a valid mixture is refused: %s", att_last_error()->text);
    if (!status && spoiled)
        finding("a wrong mixture is accepted");
    if (status) {
        moe_check_untouched(c);
        return;
    }
    check_launch(&launch, plan, c->problem.tokens == 0);
    moe_check(c, att_plan_kernel(plan));
}

void api_moe(const api_ground *ground, random_input *in) {
    static moe_case c;
    att_plan *plan = (att_plan *)(void *)&c;
    moe_draw(&c.problem, in);
    const bool broken = draw_chance(in, 25);
    if (broken)
        moe_break(&c.problem, in);
    const att_status status = att_moe_plan_create(&plan, ground->ctx, &c.problem);
    if (status) {
        check_no_plan(plan, status);
        if (!broken)
            finding("a valid mixture is refused: %s", att_last_error()->text);
        return;
    }
    if (moe_open(&c, in, att_plan_workspace(plan)))
        run_moe(plan, &c, in);
    moe_close(&c);
    att_plan_destroy(plan);
}

/* --------------------------------------------------------------------------- contexts */

static const char *draw_text(char text[256], random_input *in) {
    const size_t length = draw_byte(in);
    for (size_t i = 0; i < length; i++)
        text[i] = (char)(draw_byte(in) | 1);
    text[length] = '\0';
    return text;
}

static void query(const att_context *ctx, random_input *in) {
    att_context_info info = {.size = draw_chance(in, 80) ? sizeof info
                                                         : draw_byte(in) % sizeof info};
    att_status status = att_context_query(ctx, &info);
    if (status)
        api_check_error(status);
    const size_t count = att_context_kernel_count(ctx);
    for (size_t i = 0; i <= count; i++) {
        att_kernel_info kernel = {.size = sizeof kernel};
        status = att_kernel_query(ctx, i, &kernel);
        if ((status == ATT_OK) != (i < count))
            finding("kernel %zu of %zu: %s", i, count, att_status_name(status));
    }
}

void api_context(random_input *in, att_device device) {
    static const char *const prefixes[] = {"fwd_cpu_*",           "*",      "",
                                           "decode_cpu_portable", "merge*", "moe_cpu_*"};
    char kernel[256], rows[256];
    att_context_options o = {.size = sizeof o, .device = device, .threads = 1, .cache_dir = ""};
    const uint32_t any = draw_u32(in);
    if (draw_chance(in, 20))
        memcpy(&o.device, &any, sizeof any);
    if (draw_chance(in, 20))
        o.device_index = (int32_t)draw_odd(in);
    if (draw_chance(in, 30))
        o.threads = (int32_t)draw_between(in, -2, 3);
    o.isa = (att_isa)draw_between(in, 0, ATT_ISA_NEON + 1);
    if (draw_chance(in, 30))
        o.flags = draw_chance(in, 70) ? draw_byte(in) % 16 : draw_u32(in);
    if (draw_chance(in, 30))
        o.kernel = draw_chance(in, 70) ? prefixes[draw_byte(in) % 6] : draw_text(kernel, in);
    o.rows = draw_chance(in, 20) ? draw_text(rows, in) : "";
    if (draw_chance(in, 10))
        o.size = draw_byte(in) % sizeof o;
    att_context *ctx = (att_context *)(void *)&o;
    const att_status status = att_context_create(&ctx, &o);
    if (status) {
        if (ctx)
            finding("a context that failed is not NULL");
        api_check_error(status);
        return;
    }
    query(ctx, in);
    att_context_destroy(ctx);
}
