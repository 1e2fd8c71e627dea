/* cmd_plan.c: attest plan. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/plan_tables.h"
#include "cli/ranks_table.h"
#include "cli/session.h"
#include "lab/problem/problem_json.h"

/* `value` with an SI prefix and three digits: "4.19 M". */
static const char *with_prefix(char *buf, size_t n, double value) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    size_t i = 0;
    while (value >= 999.5 && i + 1 < sizeof prefixes / sizeof prefixes[0]) {
        value /= 1000.0;
        i++;
    }
    snprintf(buf, n, "%.3g %s", value, prefixes[i]);
    return buf;
}

static void put_device(FILE *text, const lab_device *device) {
    const att_cuda_limits *l = &device->limits;
    const char *slash = strrchr(device->from, '/');
    fprintf(text, "device    %s (%s): sm_%d, %d SMs at %.2f GHz, %d KiB of L2 cache\n", l->name,
            slash ? slash + 1 : device->from, l->cc, l->sms,
            device->rates[LAB_RATE_CLOCK].value / 1e9, l->l2_bytes / 1024);
    fprintf(
        text,
        "an SM     %d warps, %d blocks, %d registers, %d bytes of shared memory; a block %d\n",
        l->warps_per_sm, l->blocks_per_sm, l->registers_per_sm, l->shared_per_sm,
        l->shared_per_block);
}

/* The work and the rate of each bound: "0.54 GFLOP at 121 TFLOP/s". */
static void put_bound(FILE *text, const lab_plan_result *r, lab_bound_kind kind) {
    static const char *const units[LAB_BOUND_COUNT] = {"FLOP", "B", "exp"};
    const double amounts[LAB_BOUND_COUNT] = {r->work.flops, r->work.bytes, r->work.pairs};
    const double seconds = r->floor.seconds[kind];
    char time[32], amount[32], speed[32];
    fprintf(text, "  %-7s %10s   %s%s at %s%s/s%s\n", lab_bound_name(kind),
            cli_microseconds(time, sizeof time, seconds),
            with_prefix(amount, sizeof amount, amounts[kind]), units[kind],
            with_prefix(speed, sizeof speed, seconds > 0.0 ? amounts[kind] / seconds : 0.0),
            units[kind], kind == r->floor.binds ? "   <- binds" : "");
}

static void put_floor(FILE *text, const lab_plan_result *r, const lab_device *device) {
    char a[32], b[32], c[32];
    fprintf(text, "work      %sFLOP, %sB at least, %sexp",
            with_prefix(a, sizeof a, r->work.flops), with_prefix(b, sizeof b, r->work.bytes),
            with_prefix(c, sizeof c, r->work.pairs));
    if (r->work.bytes > 0.0)
        fprintf(text, "; %.0f FLOP per byte", r->work.flops / r->work.bytes);
    fprintf(text, "\nfloor     %s by the manufacturer's rates\n",
            cli_microseconds(a, sizeof a, lab_floor_seconds(&r->floor)));
    for (int i = 0; i < LAB_BOUND_COUNT; i++)
        put_bound(text, r, (lab_bound_kind)i);
    if (r->has_reach)
        fprintf(text, "reach     %s by rates measured on this model of GPU\n",
                cli_microseconds(a, sizeof a, lab_floor_seconds(&r->reach)));
    if (r->floor.binds == LAB_BOUND_MEMORY && r->work.bytes < (double)device->limits.l2_bytes)
        fputs("note      the inputs fit the L2 cache: if they are there already, memory is not "
              "the "
              "limit\n",
              text);
}

static void put_choice(FILE *text, const lab_plan_result *r) {
    char time[32];
    if (!r->chosen) {
        fprintf(text, "chosen    none: %s\n", r->refusal);
        return;
    }
    const bool timed = r->chosen->model != LAB_TIME_NONE;
    fprintf(text,
            "chosen    %s: %" PRIu32 " threads and %" PRIu32
            " bytes of shared memory per block%s%s\n",
            r->chosen->row->id, r->chosen->threads, r->chosen->shared,
            timed ? ", predicted " : "; no model predicts its time",
            timed ? cli_microseconds(time, sizeof time, r->chosen->seconds) : "");
}

static void put_plan(const cli_session *session, const lab_plan_result *r,
                     const lab_device *device, const lab_spec *spec) {
    FILE *text = session->text;
    const bool all = session->options->all;
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    fprintf(text, "\nproblem   %s\n", line);
    put_floor(text, r, device);
    const bool by_tiles = !r->chosen || r->chosen_tile; /* its tile is in the grid */
    if (!by_tiles)
        cli_plan_put_kernels(text, r, device);
    if (by_tiles || all || !cli_plan_is_timed(r))
        cli_plan_put_tiles(text, r, device, spec, all);
    else
        fputs("tiles     of fwd_sm80, which is not chosen here: --all lists them\n", text);
    put_choice(text, r);
}

/* Whether the name is that of a GPU of this machine, not of a device file: cuda or cuda:N. */
static bool is_live(const char *name, int *index) {
    *index = 0;
    if (!name || strcmp(name, "cuda") == 0)
        return true;
    int length = 0;
    return sscanf(name, "cuda:%4d%n", index, &length) == 1 && !name[length] && *index >= 0;
}

static cli_exit find_device(const cli_options *o, lab_device *device) {
    lab_message why;
    int index;
    if (!is_live(o->plan_device, &index)) {
        if (lab_device_read(device, o->plan_device, &why))
            return CLI_HOLDS;
        cli_complain(o, "--device %s: %s", o->plan_device, why.text);
        return CLI_USAGE;
    }
    if (lab_device_live(device, index, &why))
        return CLI_HOLDS;
    char names[256];
    lab_device_names(names, sizeof names);
    cli_complain(o, "%s; use --device to plan for another GPU: %s", why.text, names);
    return CLI_NOT_POSSIBLE;
}

/* Seconds of the whole problem on one device: as given, from the chosen kernel's model, or from
 * what the device can reach. */
static double whole_seconds(const cli_options *o, const lab_plan_result *r) {
    if (o->whole > 0.0)
        return o->whole;
    if (r->chosen && r->chosen->model != LAB_TIME_NONE)
        return r->chosen->seconds;
    return lab_floor_seconds(r->has_reach ? &r->reach : &r->floor);
}

/* --whole without a device: only the ranks. */
static cli_exit plan_ranks_alone(cli_session *session) {
    const cli_options *o = session->options;
    json_t *results = json_array();
    for (size_t i = 0; i < session->spec_count; i++) {
        const lab_spec *spec = &session->specs[i];
        char line[LAB_SPEC_MAX];
        lab_spec_print(spec, line, sizeof line);
        fprintf(session->text, "%sproblem   %s\n", i ? "\n" : "", line);
        json_array_append_new(
            results, json_pack("{s:o, s:o}", "problem", lab_json_problem(spec), "ranks",
                               cli_plan_put_ranks(session->text, o, spec, o->whole, 0.0)));
    }
    json_t *document = lab_json_document("attest-plan-1", NULL);
    json_object_set_new(document, "results", results);
    return cli_session_finish(session, document, CLI_HOLDS);
}

static cli_exit plan_problems(cli_session *session, const lab_device *device) {
    const cli_options *o = session->options;
    json_t *results = json_array();
    cli_exit result = CLI_HOLDS;
    put_device(session->text, device);
    for (size_t i = 0; i < session->spec_count && result == CLI_HOLDS; i++) {
        const lab_spec *spec = &session->specs[i];
        lab_plan_result plan;
        lab_message why;
        if (!lab_plan_make(&plan, spec, device, NULL, &why)) {
            cli_complain(o, "%s", why.text);
            result = CLI_USAGE;
        } else {
            put_plan(session, &plan, device, spec);
            json_t *object = lab_plan_object(&plan, spec);
            if (o->rank_count)
                json_object_set_new(
                    object, "ranks",
                    cli_plan_put_ranks(session->text, o, spec, whole_seconds(o, &plan),
                                       device->rates[LAB_RATE_MEMORY].value));
            json_array_append_new(results, object);
        }
        lab_plan_free(&plan);
    }
    json_t *document = lab_json_document("attest-plan-1", NULL);
    json_object_set_new(document, "device", lab_plan_device_object(device));
    json_object_set_new(document, "results", results);
    return cli_session_finish(session, document, result);
}

cli_exit cli_plan(const cli_options *o) {
    cli_session session;
    lab_device device;
    cli_exit result = cli_session_begin_problems(&session, o, NULL);
    if (result == CLI_HOLDS && !cli_ranks_asked_well(o, session.specs, session.spec_count))
        result = CLI_USAGE;
    if (result == CLI_HOLDS && o->whole > 0.0 && !o->plan_device) {
        result = plan_ranks_alone(&session);
        cli_session_close(&session);
        return result;
    }
    if (result == CLI_HOLDS)
        result = find_device(o, &device);
    if (result == CLI_HOLDS)
        result = plan_problems(&session, &device);
    cli_session_close(&session);
    return result;
}
