/* bench_report.c: timing results as a table, as CSV and as JSON. */
#include "cli/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/bench_curve.h"
#include "cli/bench_processes.h"
#include "cli/verdict_report.h"
#include "lab/base/clock.h"
#include "lab/base/interrupt.h"
#include "lab/base/machine.h"
#include "lab/base/table.h"
#include "lab/measure/bench_json.h"
#include "lab/measure/comparison.h"

enum { COLUMNS = 10 };

static const lab_table_column columns[COLUMNS] = {
    {"problem", LAB_TABLE_LEFT},    {"kernel", LAB_TABLE_LEFT},
    {"error", LAB_TABLE_RIGHT},     {"of bar", LAB_TABLE_RIGHT},
    {"median ms", LAB_TABLE_RIGHT}, {"95 % interval", LAB_TABLE_LEFT},
    {"spread", LAB_TABLE_RIGHT},    {"samples", LAB_TABLE_RIGHT},
    {"GFLOP/s", LAB_TABLE_RIGHT},
};

/* A GPU's times are a thousand times shorter, and have a floor. */
static const lab_table_column gpu_columns[COLUMNS] = {
    {"problem", LAB_TABLE_LEFT},    {"kernel", LAB_TABLE_LEFT},
    {"error", LAB_TABLE_RIGHT},     {"of bar", LAB_TABLE_RIGHT},
    {"median us", LAB_TABLE_RIGHT}, {"95 % interval", LAB_TABLE_LEFT},
    {"spread", LAB_TABLE_RIGHT},    {"samples", LAB_TABLE_RIGHT},
    {"TFLOP/s", LAB_TABLE_RIGHT},   {"of floor", LAB_TABLE_RIGHT},
};

/* Four significant digits: finer than any interval. */
static int digits_after_point(double time) {
    return time >= 100.0 ? 1 : time >= 10.0 ? 2 : time >= 1.0 ? 3 : time >= 0.1 ? 4 : 5;
}

static void put_row(lab_table *table, const lab_bench_case *c, bool gpu) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(c->spec, line, sizeof line);
    lab_table_cell(table, "%s", line);
    cli_put_verify_cells(table, &c->verify);
    if (!c->timed) {
        lab_table_cell(table, "%s", cli_outcome_text(&c->verify));
        lab_table_end_row(table);
        return;
    }
    const double unit = gpu ? 1e3 : 1e6;
    const double median = c->ns.median / unit, low = c->ns.low / unit, high = c->ns.high / unit;
    const int digits = digits_after_point(median);
    lab_table_cell(table, "%.*f", digits, median);
    lab_table_cell(table, "[%.*f, %.*f]", digits, low, digits, high);
    lab_table_cell(table, "%.1f %%", c->ns.spread_percent);
    lab_table_cell(table, "%zu", c->sample_count);
    lab_table_cell(table, "%.1f", lab_bench_gflops(c, c->ns.median) / (gpu ? 1e3 : 1.0));
    if (!gpu)
        return;
    if (c->floor_ns > 0.0)
        lab_table_cell(table, "%.0f %%", 100.0 * c->floor_ns / c->ns.median);
    else
        lab_table_cell(table, "-");
}

/* What the table does not show: outliers and discarded samples. */
static void put_notes(FILE *text, const lab_bench_case *cases, size_t count) {
    size_t samples = 0, outliers = 0, discarded = 0, capped = 0;
    unsigned reasons = 0;
    for (size_t i = 0; i < count; i++) {
        const lab_bench_case *c = &cases[i];
        discarded += c->discarded;
        reasons |= c->discarded_for;
        capped += c->power_capped;
        if (!c->timed)
            continue;
        samples += c->sample_count;
        outliers += c->ns.outliers_below + c->ns.outliers_above;
    }
    if (outliers)
        fprintf(text, "\n%zu of %zu samples are outliers (Tukey); they are kept\n", outliers,
                samples);
    if (discarded) {
        char names[128];
        lab_slow_reasons(reasons, names, sizeof names);
        fprintf(text, "%zu samples were thrown away: the GPU throttled (%s)\n", discarded,
                names);
    }
    if (capped)
        fprintf(text, "%zu samples were taken at the power limit; they are kept\n", capped);
}

static void put_csv(FILE *csv, const lab_bench_case *cases, size_t count) {
    fputs("problem,isa,threads,kernel,outcome,error,bar,samples,median_ns,low_ns,high_ns,"
          "spread_percent,flops,gflops,outliers,discarded\n",
          csv);
    for (size_t i = 0; i < count; i++) {
        const lab_bench_case *c = &cases[i];
        if (c->unreached)
            continue;
        char line[LAB_SPEC_MAX];
        lab_spec_print(c->spec, line, sizeof line);
        att_context_info info = {.size = sizeof info};
        att_context_query(c->subject.ctx, &info);
        fprintf(csv, "\"%s\",%s,%d,%s,%s,%.9g,%.9g,%zu,", line, lab_isa_name(info.isa),
                (int)info.threads, c->verify.kernel, cli_outcome_text(&c->verify),
                c->verify.error[0].kernel, c->verify.error[0].bar,
                c->timed ? c->sample_count : 0);
        if (c->timed)
            fprintf(csv, "%.1f,%.1f,%.1f,%.3f,%.0f,%.3f,%zu,%zu\n", c->ns.median, c->ns.low,
                    c->ns.high, c->ns.spread_percent, c->flops,
                    lab_bench_gflops(c, c->ns.median),
                    c->ns.outliers_below + c->ns.outliers_above, c->discarded);
        else
            fprintf(csv, ",,,,%.0f,,,%zu\n", c->flops, c->discarded);
    }
}

/* The machine's load over the last minute; NaN if unknown. */
static double load_average(void) {
    double load;
    return getloadavg(&load, 1) == 1 ? load : (double)NAN;
}

lab_bench_options cli_bench_options(const cli_options *o) {
    lab_bench_options options = lab_bench_defaults();
    options.seed = o->seed + (uint64_t)o->as_process;
    options.rows_seed = cli_rows_seed(o);
    options.min_samples = (size_t)o->min_samples;
    options.max_samples = (size_t)o->max_samples;
    options.seconds = o->seconds;
    options.warmup_seconds = fmin(options.warmup_seconds, o->seconds);
    options.precision = o->precision;
    options.timer = (lab_timer)o->timer;
    options.mode = o->cold ? LAB_COLD : LAB_WARM;
    return options;
}

bool cli_open_save(cli_sink *save, const cli_options *o) {
    char path[CLI_PATH_MAX];
    if (!o->save)
        return true;
    if (!cli_baseline_path(o, o->save, path))
        return false;
    if (!strchr(o->save, '/') && strncmp(path, "baselines/", 10) == 0)
        mkdir("baselines", 0777); /* errors show when the file is opened */
    return cli_sink_open(save, o, path);
}

cli_exit cli_finish_bench(cli_session *session, cli_sink *save, json_t *document,
                          cli_exit outcome) {
    const cli_options *o = session->options;
    lab_message why;
    if (save->stream) {
        if (!lab_json_write(json_incref(document), save->stream, &why)) {
            json_decref(document);
            cli_complain(o, "%s", why.text);
            return CLI_NOT_POSSIBLE;
        }
        if (!cli_sink_commit(save, o)) {
            json_decref(document);
            return CLI_NOT_POSSIBLE;
        }
    }
    return cli_session_finish(session, document, outcome);
}

/* ----------------------------------------------------------------------- one run */

/* The state of a run of `bench`. */
typedef struct run {
    cli_session *session;
    lab_bench_options options;
    lab_bench_case *cases;
    size_t count;
    double load, device_seconds;
    int64_t processes; /* number of processes whose samples are included */
    cli_sink save;
    lab_results baseline; /* if --baseline was given */
} run;

static json_t *document_of(const run *r) {
    json_t *document = lab_json_bench_document(r->session->ctx[0], &r->options);
    json_t *results = json_object_get(document, "results");
    json_object_set_new(json_object_get(document, "options"), "processes",
                        json_integer((json_int_t)r->processes));
    if (lab_interrupted())
        json_object_set_new(document, "interrupted", json_true());
    json_object_set_new(document, "load_average_before", lab_json_number(r->load));
    json_object_set_new(document, "device_seconds", lab_json_number(r->device_seconds));
    for (size_t i = 0; i < r->count; i++)
        if (!r->cases[i].unreached)
            json_array_append_new(results, lab_json_bench_case(&r->cases[i], &r->options));
    return document;
}

/* Compare the rivals of one run with the first of them, round by round. */
static bool judge_rivals(const run *r, json_t *document, lab_message *why) {
    static const lab_table_column rival_columns[] = {{"problem", LAB_TABLE_LEFT},
                                                     {"rival", LAB_TABLE_LEFT},
                                                     {"against", LAB_TABLE_LEFT},
                                                     {"effect", LAB_TABLE_LEFT},
                                                     {"verdict", LAB_TABLE_VERDICT}};
    const size_t subjects = r->session->subject_count;
    const double minimum = r->session->options->minimum_effect;
    json_t *results = json_object_get(document, "results");
    lab_table *table =
        lab_table_create(rival_columns, sizeof rival_columns / sizeof rival_columns[0]);
    bool ok = true;
    for (size_t i = 0; ok && i < r->count; i++) {
        const lab_bench_case *b = &r->cases[i], *a = &r->cases[i - i % subjects];
        lab_verdict v;
        if (a == b || !a->timed || !b->timed)
            continue;
        const lab_samples of_a = lab_bench_samples(a), of_b = lab_bench_samples(b);
        ok = lab_verdict_of(&v, &of_a, &of_b, LAB_PAIRED,
                            minimum > 0.0 ? minimum : LAB_MINIMUM_EFFECT, r->options.seed, why);
        if (!ok)
            break;
        char line[LAB_SPEC_MAX], effect[64];
        lab_spec_print(b->spec, line, sizeof line);
        cli_format_effect(&v, effect, sizeof effect);
        lab_table_cell(table, "%s", line);
        lab_table_cell(table, "%s", b->verify.kernel);
        lab_table_cell(table, "%s", a->verify.kernel);
        lab_table_cell(table, "%s", effect);
        lab_table_cell(table, "%s", lab_verdict_name(v.kind));
        json_object_set_new(json_array_get(results, i), "against_first", lab_json_verdict(&v));
    }
    if (ok && subjects > 1) {
        fputc('\n', r->session->text);
        lab_table_print(table, r->session->text);
    }
    lab_table_destroy(table);
    return ok;
}

/* Add the verdicts against the baseline to the text and the document. */
static cli_exit judge_baseline(const run *r, json_t *document) {
    const cli_options *o = r->session->options;
    lab_results now;
    lab_comparison comparison;
    lab_message why;
    if (!lab_results_of(&now, document, "this run", &why)) {
        cli_complain(o, "%s", why.text);
        return CLI_NOT_POSSIBLE;
    }
    cli_exit result = CLI_USAGE;
    if (lab_compare(&comparison, &r->baseline, &now, o->allowed, o->minimum_effect, o->seed,
                    &why)) {
        fprintf(r->session->text, "\nAgainst %s:\n", o->baseline);
        cli_put_comparison(r->session->text, &comparison);
        json_object_set_new(document, "comparison", lab_json_comparison(&comparison));
        result = lab_comparison_holds(&comparison) ? CLI_HOLDS : CLI_CHECK_FAILED;
        lab_comparison_free(&comparison);
    } else {
        cli_complain(o, "%s", why.text);
    }
    lab_results_free(&now);
    return result;
}

static cli_exit put_all(const run *r) {
    cli_session *session = r->session;
    att_context_info info = {.size = sizeof info};
    const bool gpu =
        att_context_query(session->ctx[0], &info) == ATT_OK && info.device == ATT_DEVICE_CUDA;
    lab_table *table =
        lab_table_create(gpu ? gpu_columns : columns, gpu ? COLUMNS : COLUMNS - 1);
    cli_tally tally = {0};
    for (size_t i = 0; i < r->count; i++) {
        if (r->cases[i].unreached)
            continue;
        put_row(table, &r->cases[i], gpu);
        cli_tally_add(&tally, &r->cases[i].subject, &r->cases[i].verify);
    }
    if (!session->options->as_process) {
        lab_table_print(table, session->text);
        put_notes(session->text, r->cases, r->count);
        if (!lab_interrupted())
            cli_put_curves(session->text, r->cases, r->count, session->subject_count, gpu);
        for (size_t i = 0; i < r->count; i++)
            if (!r->cases[i].unreached)
                cli_put_failure(session, i % session->subject_count, r->cases[i].spec,
                                &r->cases[i].verify);
        cli_put_tally(session, &tally);
    }
    lab_table_destroy(table);
    if (session->csv.stream)
        put_csv(session->csv.stream, r->cases, r->count);
    return cli_tally_exit(&tally);
}

/* Write the measurements up to the interrupt into the documents but not into a baseline, which
 * only a complete run replaces. Nothing is judged: the user chose when to stop. */
static cli_exit report_interrupted(run *r) {
    const cli_options *o = r->session->options;
    size_t reached = 0;
    for (size_t i = 0; i < r->count; i++)
        reached += !r->cases[i].unreached;
    if (reached == 0) {
        cli_complain(o, "interrupted before anything was measured");
        return CLI_INTERRUPTED;
    }
    put_all(r);
    const cli_exit written = cli_session_finish(r->session, document_of(r), CLI_INTERRUPTED);
    if (written == CLI_INTERRUPTED)
        cli_complain(o, "interrupted: %zu of %zu cases were measured%s%s%s", reached, r->count,
                     o->json ? ", and are kept in " : "", o->json ? o->json : "",
                     o->save ? "; no baseline is saved" : "");
    return written;
}

static cli_exit report(run *r) {
    if (lab_interrupted())
        return report_interrupted(r);
    cli_exit outcome = put_all(r);
    json_t *document = document_of(r);
    lab_message why;
    if (!r->session->options->as_process && !judge_rivals(r, document, &why)) {
        cli_complain(r->session->options, "%s", why.text);
        json_decref(document);
        return CLI_NOT_POSSIBLE;
    }
    if (r->baseline.document) {
        const cli_exit judged = judge_baseline(r, document);
        outcome = outcome == CLI_HOLDS ? judged : outcome;
    }
    return cli_finish_bench(r->session, &r->save, document, outcome);
}

/* Read the baseline before any work is done; one from another machine is refused here. */
static cli_exit open_baseline(run *r) {
    const cli_options *o = r->session->options;
    if (!o->baseline)
        return CLI_HOLDS;
    const cli_exit result = cli_read_results(&r->baseline, o, o->baseline);
    if (result != CLI_HOLDS)
        return result;
    lab_results here;
    lab_message why;
    json_t *document = lab_json_bench_document(r->session->ctx[0], &r->options);
    bool ok = lab_results_of(&here, document, "this machine", &why);
    json_decref(document);
    if (ok) {
        ok = lab_compare_machines(&r->baseline, &here, o->allowed, &why);
        lab_results_free(&here);
    }
    if (!ok)
        cli_complain(o, "%s", why.text);
    return ok ? CLI_HOLDS : CLI_USAGE;
}

static cli_exit measure(run *r) {
    const uint64_t start = lab_clock_ns();
    lab_message why;
    if (!lab_bench_run(r->cases, r->count, &r->options, stderr, &why)) {
        cli_complain(r->session->options, "%s", why.text);
        return CLI_NOT_POSSIBLE;
    }
    const cli_exit result =
        cli_bench_further_processes(r->session, r->cases, r->count, &r->processes);
    r->device_seconds = 1e-9 * (double)(lab_clock_ns() - start);
    return result;
}

cli_exit cli_bench_session(cli_session *session) {
    const cli_options *o = session->options;
    run r = {.session = session,
             .options = cli_bench_options(o),
             .count = session->spec_count * session->subject_count,
             .load = load_average()};
    cli_exit result = open_baseline(&r);
    if (result == CLI_HOLDS && !cli_open_save(&r.save, o))
        result = CLI_NOT_POSSIBLE;
    r.cases = calloc(r.count, sizeof *r.cases);
    if (result == CLI_HOLDS && !r.cases) {
        cli_complain(o, "out of memory");
        result = CLI_NOT_POSSIBLE;
    }
    if (result == CLI_HOLDS) {
        /* Instruction sets, kernels and peers of one problem are adjacent. */
        for (size_t i = 0; i < r.count; i++) {
            r.cases[i].spec = &session->specs[i / session->subject_count];
            r.cases[i].subject = session->subjects[i % session->subject_count];
        }
        if (r.load > 0.5 * (double)sysconf(_SC_NPROCESSORS_ONLN) && !o->as_process)
            fprintf(stderr,
                    "note: this machine is busy (load average %.1f), so times will scatter\n",
                    r.load);
        if (!o->as_process)
            lab_interrupt_listen(
                "\nattest bench: interrupted; this round is completed, and all samples "
                "are kept (Ctrl-C again stops at once)\n");
        result = measure(&r);
        if (result == CLI_HOLDS)
            result = report(&r);
        lab_bench_free(r.cases, r.count);
    }
    free(r.cases);
    cli_sink_discard(&r.save);
    lab_results_free(&r.baseline);
    return result;
}
