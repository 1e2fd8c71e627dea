/* cmd_ablate.c: attest ablate. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/report.h"
#include "cli/session.h"
#include "lab/base/interrupt.h"
#include "lab/base/screen.h"
#include "lab/base/table.h"
#include "lab/tune/ablate.h"

static const lab_table_column columns[] = {
    {"variant", LAB_TABLE_LEFT},    {"answer", LAB_TABLE_VERDICT},
    {"median us", LAB_TABLE_RIGHT}, {"95 % interval", LAB_TABLE_LEFT},
    {"change", LAB_TABLE_RIGHT},    {"95 % interval", LAB_TABLE_LEFT},
    {"verdict", LAB_TABLE_VERDICT},
};

static void put_time(lab_table *table, const lab_bench_case *c) {
    lab_table_cell(table, "%s", cli_outcome_text(&c->verify));
    if (!c->timed) {
        lab_table_cell(table, "-");
        lab_table_cell(table, "%s", "");
        return;
    }
    lab_table_cell(table, "%.2f", c->ns.median / 1e3);
    lab_table_cell(table, "[%.2f, %.2f]", c->ns.low / 1e3, c->ns.high / 1e3);
}

static void put_verdict(lab_table *table, const lab_verdict *v) {
    lab_table_cell(table, "%+.1f %%", 100.0 * v->effect);
    lab_table_cell(table, "[%+.1f, %+.1f]", 100.0 * v->low, 100.0 * v->high);
    lab_table_cell(table, "%s", lab_verdict_name(v->kind));
}

/* Everything but the cumulative steps, compared with all on. */
static void put_table(FILE *text, const lab_ablation *a) {
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < a->count; i++) {
        const lab_ablation_step *step = &a->steps[i];
        if (step->kind == LAB_CUMULATIVE || a->cases[i].unreached)
            continue;
        lab_table_cell(table, "%s", step->name);
        put_time(table, &a->cases[i]);
        if (step->judged)
            put_verdict(table, &step->verdict);
        lab_table_end_row(table);
    }
    lab_table_print(table, text);
    lab_table_destroy(table);
}

/* The width of the bars, and of what stands beside them. */
enum { BAR = 40, BAR_LEAST = 8, BESIDE_BAR = 57 };

static int bar_width(FILE *text) {
    const size_t width = lab_screen_width(text);
    if (width == 0 || width > BAR + BESIDE_BAR)
        return BAR;
    return width > BAR_LEAST + BESIDE_BAR ? (int)width - BESIDE_BAR : BAR_LEAST;
}

/* A line of the waterfall: the bar from the previous time to this one. */
static void put_bar(FILE *text, const char *name, double before, double now, double most,
                    const lab_verdict *verdict) {
    char bar[BAR + 1];
    const int wide = bar_width(text);
    const double low = fmin(before, now), high = fmax(before, now);
    const int from = (int)(low / most * wide), to = (int)ceil(high / most * wide);
    const char mark = before == 0.0 ? '=' : now <= before ? '#' : '+';
    for (int i = 0; i < wide; i++)
        bar[i] = i >= from && i < to ? mark : ' ';
    bar[wide] = '\0';
    fprintf(text, "  %-18s |%s| %9.2f us", name, bar, now / 1e3);
    if (verdict) {
        fprintf(text, "  %+6.1f %%  ", 100.0 * verdict->effect);
        lab_put_verdict(text, lab_verdict_name(verdict->kind));
    }
    fputc('\n', text);
}

static double longest(const lab_ablation *a) {
    double most = 0.0;
    for (size_t i = 0; i < a->count; i++)
        if (a->cases[i].timed &&
            (i == 0 || a->steps[i].kind == LAB_ALL_OFF || a->steps[i].kind == LAB_CUMULATIVE))
            most = fmax(most, a->cases[i].ns.median);
    return most;
}

/* From all off to all on. A step that was not timed is omitted. */
static void put_waterfall(FILE *text, const lab_ablation *a) {
    const double most = longest(a);
    double before = 0.0;
    if (most == 0.0)
        return;
    fputs("\nfrom all off to all on, one more switch at a time (# saves, + costs):\n", text);
    for (size_t i = 1; i < a->count; i++) {
        const lab_ablation_step *step = &a->steps[i];
        const bool first = step->kind == LAB_ALL_OFF;
        if ((!first && step->kind != LAB_CUMULATIVE) || !a->cases[i].timed)
            continue;
        const double now = a->cases[i].ns.median;
        put_bar(text, step->name, first ? 0.0 : before, now, most,
                !first && step->judged ? &step->verdict : NULL);
        before = now;
    }
    if (!a->cases[0].timed)
        return;
    char name[48];
    snprintf(name, sizeof name, "+ %s", a->base.switches[a->base.switch_count - 1]);
    put_bar(text, name, before, a->cases[0].ns.median, most, a->last_judged ? &a->last : NULL);
}

static void put_failure(FILE *text, const char *step, const lab_verify_result *result) {
    lab_put_verdict(text, cli_outcome_text(result));
    fprintf(text, " %s: %s\n", step, result->message);
}

/* The failures, and the meaning of the names. */
static void put_notes(FILE *text, const lab_ablation *a) {
    fputc('\n', text);
    for (size_t i = 0; i < a->count; i++)
        if (!a->cases[i].unreached && a->cases[i].verify.outcome != LAB_PASS)
            put_failure(text, a->steps[i].name, &a->cases[i].verify);
    for (size_t i = 0; i < a->base.switch_count; i++)
        fprintf(text, "%-14s %s\n", a->base.switches[i], a->base.switch_texts[i]);
}

static void put_ablation(FILE *text, const lab_ablation *a) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(a->base.spec, line, sizeof line);
    fprintf(text, "kernel   %s on %s, every variant compiled here\nproblem  %s\n\n", a->base.id,
            a->base.gpu.gpu_name, line);
    put_table(text, a);
    put_waterfall(text, a);
    put_notes(text, a);
}

static cli_exit count_outcomes(const cli_session *session, const lab_ablation *a) {
    cli_tally tally = {0};
    for (size_t i = 0; i < a->count; i++)
        if (!a->cases[i].unreached)
            cli_tally_add(&tally, &a->cases[i].subject, &a->cases[i].verify);
    cli_put_tally(session, &tally);
    return cli_tally_exit(&tally);
}

static json_t *document_of(const cli_session *session, const lab_ablation *a) {
    const cli_options *o = session->options;
    json_t *document = lab_json_document("attest-ablation-1", session->ctx[0]);
    json_object_set_new(
        document, "options",
        json_pack("{s:I, s:f}", "seed", (json_int_t)o->seed, "seconds", o->seconds));
    if (lab_interrupted())
        json_object_set_new(document, "interrupted", json_true());
    json_object_update_new(document, lab_ablation_object(a));
    return document;
}

/* Print the result, and make the document if there is one. */
static cli_exit report(const cli_session *session, const lab_ablation *a, json_t **document) {
    const cli_options *o = session->options;
    size_t reached = 0;
    for (size_t i = 0; i < a->count; i++)
        reached += !a->cases[i].unreached;
    if (reached == 0) {
        cli_complain(o, "interrupted before anything was measured");
        return CLI_INTERRUPTED;
    }
    put_ablation(session->text, a);
    const cli_exit result = count_outcomes(session, a);
    if (session->json.stream)
        *document = document_of(session, a);
    if (!lab_interrupted())
        return result;
    cli_complain(o, "interrupted: %zu of %zu variants were measured%s%s", reached, a->count,
                 o->json ? ", and are kept in " : "", o->json ? o->json : "");
    return CLI_INTERRUPTED;
}

/* The document is that of the only problem; with several problems there is none. */
static cli_exit ablate(cli_session *session, const lab_spec *spec, json_t **document) {
    const cli_options *o = session->options;
    lab_bench_options options = lab_bench_defaults();
    options.seed = o->seed;
    options.min_samples = (size_t)o->min_samples;
    options.max_samples = (size_t)o->max_samples;
    options.seconds = o->seconds;
    options.warmup_seconds = fmin(options.warmup_seconds, o->seconds);
    lab_ablation ablation;
    lab_message why;
    cli_exit result = CLI_NOT_POSSIBLE;
    if (lab_ablate(&ablation, session->ctx[0], spec, &options, stderr, &why)) {
        result = report(session, &ablation, document);
    } else {
        char line[LAB_SPEC_MAX];
        lab_spec_print(spec, line, sizeof line);
        cli_complain(o, "%s: %s", line, why.text);
    }
    lab_ablation_free(&ablation);
    return result;
}

static cli_exit ablate_all(cli_session *session) {
    if (session->json.stream && session->spec_count > 1) {
        cli_complain(session->options, "--json holds one problem, but %zu are given",
                     session->spec_count);
        return CLI_USAGE;
    }
    cli_exit result = CLI_HOLDS;
    json_t *document = NULL;
    lab_interrupt_listen("\nattest ablate: interrupted; this round is finished and what was "
                         "measured is kept (again: stop at once)\n");
    for (size_t i = 0; i < session->spec_count && !lab_interrupted(); i++) {
        if (i > 0)
            fputc('\n', session->text);
        const cli_exit one = ablate(session, &session->specs[i], &document);
        /* A wrong answer takes precedence over what could not be done. */
        if (result != CLI_CHECK_FAILED && one != CLI_HOLDS)
            result = one;
    }
    if (lab_interrupted())
        result = CLI_INTERRUPTED;
    return document ? cli_session_finish(session, document, result) : result;
}

static cli_exit list_switches(const cli_options *o) {
    static const lab_table_column list_columns[] = {{"kernel", LAB_TABLE_LEFT},
                                                    {"switch", LAB_TABLE_LEFT},
                                                    {"what it does", LAB_TABLE_LEFT}};
    cli_session session;
    cli_session_start(&session, o);
    lab_table *table = lab_table_create(list_columns, 3);
    const char *source, *name, *text;
    for (size_t i = 0; lab_switch_at(i, &source, &name, &text); i++) {
        lab_table_cell(table, "%s", source);
        lab_table_cell(table, "%s", name);
        lab_table_cell(table, "%s", text);
    }
    lab_table_print(table, session.text);
    lab_table_destroy(table);
    cli_session_close(&session);
    return CLI_HOLDS;
}

cli_exit cli_ablate(const cli_options *o) {
    if (o->list)
        return list_switches(o);
    cli_options options = *o;
    options.rows = ""; /* a built-in row is varied, whatever rows the user has */
    o = &options;
    cli_session session;
    cli_exit result = cli_session_begin_gpu(&session, o, "seed");
    if (result == CLI_HOLDS)
        result = ablate_all(&session);
    cli_session_close(&session);
    return result;
}
