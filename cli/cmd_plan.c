/* cmd_plan.c: attest plan. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "lab/base/table.h"
#include "lab/plan/plan_result.h"

/* Tiles that are shown without --all. */
enum { TILES_SHOWN = 12 };

/* `value` with a prefix of thousands, three digits: "4.19 M". */
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

static const char *microseconds(char *buf, size_t n, double seconds) {
    const double us = seconds * 1e6;
    snprintf(buf, n, "%.*f us", us < 10.0 ? 2 : us < 100.0 ? 1 : 0, us);
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

/* What each bound takes of what, at which rate: "0.54 GFLOP at 121 TFLOP/s". */
static void put_bound(FILE *text, const lab_plan_result *r, lab_bound_kind kind) {
    static const char *const units[LAB_BOUND_COUNT] = {"FLOP", "B", "exp"};
    const double amounts[LAB_BOUND_COUNT] = {r->work.flops, r->work.bytes, r->work.pairs};
    const double seconds = r->floor.seconds[kind];
    char time[32], amount[32], speed[32];
    fprintf(text, "  %-7s %10s   %s%s at %s%s/s%s\n", lab_bound_name(kind),
            microseconds(time, sizeof time, seconds),
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
        fprintf(text, "; %.0f FLOP a byte", r->work.flops / r->work.bytes);
    fprintf(text, "\nfloor     %s by the maker's rates\n",
            microseconds(a, sizeof a, lab_floor_seconds(&r->floor)));
    for (int i = 0; i < LAB_BOUND_COUNT; i++)
        put_bound(text, r, (lab_bound_kind)i);
    if (r->has_reach)
        fprintf(text, "reach     %s by the rates that were measured on such a GPU\n",
                microseconds(a, sizeof a, lab_floor_seconds(&r->reach)));
    if (r->floor.binds == LAB_BOUND_MEMORY && r->work.bytes < (double)device->limits.l2_bytes)
        fputs(
            "note      what is read fits the L2 cache: where it is there already, memory does "
            "not bind\n",
            text);
}

static void put_fitting(FILE *text, const lab_plan_result *r, size_t shown) {
    static const lab_table_column columns[] = {
        {"tile", LAB_TABLE_LEFT},       {"shared B", LAB_TABLE_RIGHT},
        {"registers", LAB_TABLE_RIGHT}, {"blocks/SM", LAB_TABLE_RIGHT},
        {"occupancy", LAB_TABLE_RIGHT}, {"limited by", LAB_TABLE_LEFT},
        {"splits", LAB_TABLE_RIGHT},    {"grid", LAB_TABLE_RIGHT},
        {"waves", LAB_TABLE_RIGHT},     {"tail", LAB_TABLE_RIGHT},
        {"useful", LAB_TABLE_RIGHT},    {"predicted", LAB_TABLE_RIGHT},
        {"of floor", LAB_TABLE_RIGHT},  {"kernel", LAB_TABLE_LEFT},
    };
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < r->fitting; i++) {
        const lab_tile *tile = &r->tiles[i];
        if (i >= shown && !tile->id)
            continue; /* a tile that is built is always shown */
        char name[48], time[32];
        lab_tile_name(tile, name, sizeof name);
        lab_table_cell(table, "%s", name);
        lab_table_cell(table, "%" PRIu32, tile->shared);
        lab_table_cell(table, "%d", tile->registers);
        lab_table_cell(table, "%d", tile->blocks);
        lab_table_cell(table, "%.0f %%", 100.0 * tile->occupancy);
        lab_table_cell(table, "%s", lab_limit_name(tile->limited));
        lab_table_cell(table, "%d", tile->splits);
        lab_table_cell(table, "%.0f", tile->grid);
        lab_table_cell(table, "%.2f", tile->waves);
        lab_table_cell(table, "%.0f %%", 100.0 * tile->tail);
        lab_table_cell(table, "%.0f %%", 100.0 * tile->useful);
        lab_table_cell(table, "%s", microseconds(time, sizeof time, tile->seconds));
        lab_table_cell(
            table, "%.1f x",
            tile->seconds > 0.0 ? tile->seconds / lab_floor_seconds(&r->floor) : 0.0);
        lab_table_cell(table, "%s", tile->id ? tile->id : "");
    }
    lab_table_print(table, text);
    lab_table_destroy(table);
}

/* The limit that a tile breaks, with its number. */
static void describe_break(const lab_tile *tile, const lab_device *device, char *buf,
                           size_t n) {
    if (tile->breaks == ATT_RESOURCE_SHARED)
        snprintf(buf, n, "shared memory: %" PRIu32 " B, a block may have %d", tile->shared,
                 device->limits.shared_per_block);
    else
        snprintf(buf, n, "registers: about %d a thread of %d, above what a block can have",
                 tile->registers, 32 * tile->warps);
}

static void put_broken(FILE *text, const lab_plan_result *r, const lab_device *device,
                       bool all) {
    size_t counts[ATT_RESOURCE_COUNT] = {0};
    for (size_t i = r->fitting; i < r->tile_count; i++) {
        const lab_tile *tile = &r->tiles[i];
        char name[48], why[160];
        counts[tile->breaks]++;
        if (!all && !tile->id)
            continue;
        lab_tile_name(tile, name, sizeof name);
        describe_break(tile, device, why, sizeof why);
        fprintf(text, "no fit    %-14s %s%s%s\n", name, why, tile->id ? "  " : "",
                tile->id ? tile->id : "");
    }
    if (all)
        return;
    fprintf(text, "no fit    %zu of %zu tiles:", r->tile_count - r->fitting, r->tile_count);
    for (int i = 0; i < ATT_RESOURCE_COUNT; i++)
        if (counts[i])
            fprintf(text, " %zu by %s", counts[i], lab_limit_name((att_cuda_resource)i));
    fputs("; --all lists them\n", text);
}

static void put_choice(FILE *text, const lab_plan_result *r) {
    char name[48], time[32];
    if (r->fitting > 0) {
        const lab_tile *best = &r->tiles[0];
        lab_tile_name(best, name, sizeof name);
        fprintf(text, "best      %s, predicted %s%s%s\n", name,
                microseconds(time, sizeof time, best->seconds), best->id ? ": " : "",
                best->id ? best->id : "");
    }
    if (!r->chosen)
        fprintf(text, "chosen    none: %s\n", r->refusal);
    else
        fprintf(text,
                "chosen    %s: %d threads and %" PRIu32 " bytes of shared memory a block%s%s\n",
                r->chosen, r->chosen_threads, r->chosen_shared,
                r->chosen_tile ? ", predicted " : "; its tiles are not modelled",
                r->chosen_tile ? microseconds(time, sizeof time, r->chosen_tile->seconds) : "");
}

static void put_plan(const cli_session *session, const lab_plan_result *r,
                     const lab_device *device, const lab_spec *spec) {
    FILE *text = session->text;
    const bool all = session->options->all;
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    fprintf(text, "\nproblem   %s\n", line);
    put_floor(text, r, device);
    if (r->tile_count == 0) {
        fprintf(text, "tiles     none: %s\n",
                r->work.pairs <= 0.0 ? "there is nothing to compute"
                : spec->problem.dtype == ATT_F32
                    ? "tensor cores round f32, so there is no tile for it"
                    : "the head dimension is above 256");
    } else {
        fprintf(text, "tiles     %zu of %zu fit", r->fitting, r->tile_count);
        if (!all && r->fitting > TILES_SHOWN)
            fprintf(text,
                    "; the %d fastest by the model, and those that are built:", TILES_SHOWN);
        fputs("\n\n", text);
        put_fitting(text, r, all ? r->fitting : TILES_SHOWN);
        fputc('\n', text);
        put_broken(text, r, device, all);
    }
    put_choice(text, r);
}

/* A name that is neither of devices/ nor a file: cuda or cuda:N. */
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
    cli_complain(o, "%s; --device plans for one that is not here: %s", why.text, names);
    return CLI_NOT_POSSIBLE;
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
            json_array_append_new(results, lab_plan_object(&plan, spec));
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
    if (result == CLI_HOLDS)
        result = find_device(o, &device);
    if (result == CLI_HOLDS)
        result = plan_problems(&session, &device);
    cli_session_close(&session);
    return result;
}
