/* bench_report.c: timing results as a table, as CSV and as JSON. */
#include "cli/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/report.h"
#include "lab/bench.h"
#include "lab/machine.h"
#include "lab/table.h"

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

/* Four significant digits, which is more than any interval is narrow. */
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

static void put_csv(FILE *csv, const lab_bench_case *cases, size_t count) {
    fputs("problem,isa,threads,kernel,outcome,error,bar,samples,median_ns,low_ns,high_ns,"
          "spread_percent,flops,gflops\n",
          csv);
    for (size_t i = 0; i < count; i++) {
        const lab_bench_case *c = &cases[i];
        char line[LAB_SPEC_MAX];
        lab_spec_print(c->spec, line, sizeof line);
        att_context_info info = {.size = sizeof info};
        att_context_query(c->subject.ctx, &info);
        fprintf(csv, "\"%s\",%s,%d,%s,%s,%.9g,%.9g,%zu,", line, lab_isa_name(info.isa),
                (int)info.threads, c->verify.kernel, cli_outcome_text(&c->verify),
                c->verify.o.kernel, c->verify.o.bar, c->timed ? c->sample_count : 0);
        if (c->timed)
            fprintf(csv, "%.1f,%.1f,%.1f,%.3f,%.0f,%.3f\n", c->ns.median, c->ns.low, c->ns.high,
                    c->ns.spread_percent, c->flops, lab_bench_gflops(c, c->ns.median));
        else
            fprintf(csv, ",,,,%.0f,\n", c->flops);
    }
}

static json_t *case_object(const lab_bench_case *c) {
    att_context_info info = {.size = sizeof info};
    att_context_query(c->subject.ctx, &info);
    json_t *object =
        json_pack("{s:o, s:o, s:s, s:i, s:o, s:b, s:o}", "problem", lab_json_problem(c->spec),
                  "subject", lab_json_subject(&c->subject), "isa", lab_isa_name(info.isa),
                  "threads", (int)info.threads, "verify", lab_json_verify(&c->verify), "timed",
                  c->timed, "flops", lab_json_number(c->flops));
    if (!c->timed)
        return object;
    const char *kernel =
        lab_subject_is_attest(&c->subject) ? c->launch.kernel : c->subject.name;
    json_object_set_new(object, "kernel", kernel ? json_string(kernel) : json_null());
    json_object_set_new(object, "launch", lab_json_launch(&c->launch));
    json_object_set_new(object, "median_ns", lab_json_number(c->ns.median));
    json_object_set_new(object, "low_ns", lab_json_number(c->ns.low));
    json_object_set_new(object, "high_ns", lab_json_number(c->ns.high));
    json_object_set_new(object, "spread_percent", lab_json_number(c->ns.spread_percent));
    json_object_set_new(object, "gflops", lab_json_number(lab_bench_gflops(c, c->ns.median)));
    if (c->floor_ns > 0.0)
        json_object_set_new(object, "floor_ns", lab_json_number(c->floor_ns));
    json_object_set_new(object, "calls_per_sample",
                        json_integer((json_int_t)c->calls_per_sample));
    json_object_set_new(object, "samples_ns", lab_json_numbers(c->samples_ns, c->sample_count));
    return object;
}

/* Tasks ready to run on the machine, over the last minute; NaN where it is not known. */
static double load_average(void) {
    double load;
    return getloadavg(&load, 1) == 1 ? load : (double)NAN;
}

static json_t *bench_document(const cli_session *session, const lab_bench_case *cases,
                              size_t count, double load) {
    const cli_options *o = session->options;
    json_t *document = lab_json_document("attest-bench-1", session->ctx[0]);
    json_object_set_new(document, "options",
                        json_pack("{s:I, s:I, s:I, s:f}", "seed", (json_int_t)o->seed,
                                  "min_samples", (json_int_t)o->min_samples, "max_samples",
                                  (json_int_t)o->max_samples, "seconds", o->seconds));
    json_object_set_new(document, "load_average_before", lab_json_number(load));
    json_t *results = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(results, case_object(&cases[i]));
    json_object_set_new(document, "results", results);
    return document;
}

static cli_exit report(cli_session *session, const lab_bench_case *cases, size_t count,
                       double load) {
    att_context_info info = {.size = sizeof info};
    const bool gpu =
        att_context_query(session->ctx[0], &info) == ATT_OK && info.device == ATT_DEVICE_CUDA;
    lab_table *table =
        lab_table_create(gpu ? gpu_columns : columns, gpu ? COLUMNS : COLUMNS - 1);
    cli_tally tally = {0};
    for (size_t i = 0; i < count; i++) {
        put_row(table, &cases[i], gpu);
        cli_tally_add(&tally, &cases[i].subject, &cases[i].verify);
    }
    lab_table_print(table, session->text);
    lab_table_destroy(table);
    for (size_t i = 0; i < count; i++)
        cli_put_failure(session, i % session->subject_count, cases[i].spec, &cases[i].verify);
    cli_put_tally(session, &tally);
    if (session->csv.stream)
        put_csv(session->csv.stream, cases, count);
    return cli_session_finish(session, bench_document(session, cases, count, load),
                              cli_tally_exit(&tally));
}

cli_exit cli_bench_session(cli_session *session) {
    const cli_options *o = session->options;
    const size_t count = session->spec_count * session->subject_count;
    lab_bench_case *cases = calloc(count, sizeof *cases);
    if (!cases) {
        cli_complain(o, "out of memory");
        return CLI_NOT_POSSIBLE;
    }
    /* Instruction sets, kernels and peers of one problem stand side by side, so that they are sampled back to back. */
    for (size_t i = 0; i < count; i++) {
        cases[i].spec = &session->specs[i / session->subject_count];
        cases[i].subject = session->subjects[i % session->subject_count];
    }
    lab_bench_options options = lab_bench_defaults();
    options.seed = o->seed;
    options.min_samples = (size_t)o->min_samples;
    options.max_samples = (size_t)o->max_samples;
    options.seconds = o->seconds;
    const double load = load_average();
    if (load > 0.5 * (double)sysconf(_SC_NPROCESSORS_ONLN))
        fprintf(stderr,
                "note: this machine is busy (load average %.1f), so times will scatter\n",
                load);
    lab_message why;
    cli_exit result = CLI_NOT_POSSIBLE;
    if (lab_bench_run(cases, count, &options, stderr, &why))
        result = report(session, cases, count, load);
    else
        cli_complain(o, "%s", why.text);
    lab_bench_free(cases, count);
    free(cases);
    return result;
}
