/* cmd_run.c: attest run, on random inputs or on .npy files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/run_estimate.h"
#include "cli/session.h"
#include "lab/base/clock.h"
#include "lab/attention/array_files.h"
#include "lab/base/ticker.h"
#include "lab/problem/problem_json.h"
#include "lab/problem/spec_names.h"
#include "lab/statistics/stats.h"
#include "lab/subject/device_timer.h"
#include "lab/tensors/device_memory.h"
#include "lab/tensors/tensors.h"
#include "lab/verify/verify_json.h"

enum { SHAPE_REPEATS = 5, FILE_REPEATS = 1 };

/* The pointers of one problem, and the results of its runs. */
typedef struct job {
    const lab_operation *operation;
    lab_tensors *tensors;         /* for random inputs */
    const lab_array_files *files; /* or for files */
    int64_t repeats;
    double estimate; /* seconds per run; 0: unknown */
    att_launch launch;
    double median_ns;
} job;

static cli_exit impossible(const cli_session *session, const lab_message *why) {
    cli_complain(session->options, "%s", why->text);
    return CLI_NOT_POSSIBLE;
}

static cli_exit sample_cpu(const cli_session *session, const job *j, const att_plan *plan,
                           const lab_mirror *mirror, double *samples) {
    lab_ticker ticker;
    cli_exit result = CLI_HOLDS;
    lab_ticker_start(&ticker, stderr, "running", (size_t)j->repeats,
                     j->estimate * (double)j->repeats);
    for (int64_t i = 0; i < j->repeats && result == CLI_HOLDS; i++) {
        const uint64_t before = lab_clock_ns();
        if (j->operation->run(plan, &mirror->any, mirror->workspace, NULL) != ATT_OK)
            result = cli_library_failed(session->options);
        samples[i] = (double)(lab_clock_ns() - before);
        lab_ticker_done(&ticker, (size_t)i + 1);
    }
    lab_ticker_stop(&ticker);
    return result;
}

/* The first call is a plain one, so that an error is reported in the library's words. */
static cli_exit sample_gpu(const cli_session *session, const job *j, const att_plan *plan,
                           lab_mirror *mirror, double *samples) {
    const lab_prepared prepared = lab_prepared_plan(plan, j->operation);
    lab_device_timer timer;
    lab_message why;
    if (j->operation->run(plan, &mirror->any, mirror->workspace, mirror->stream) != ATT_OK)
        return cli_library_failed(session->options);
    if (!lab_mirror_wait(mirror, &why) ||
        !lab_device_timer_open(&timer, mirror, &prepared, 1, &why))
        return impossible(session, &why);
    bool ok = true;
    for (int64_t i = 0; ok && i < j->repeats; i++)
        ok = lab_device_timer_sample(&timer, &samples[i], &why);
    lab_device_timer_close(&timer);
    return ok && lab_mirror_download_outputs(mirror, &why) ? CLI_HOLDS
                                                           : impossible(session, &why);
}

/* Run the plan `repeats` times and keep the median. */
static cli_exit time_runs(const cli_session *session, job *j, const att_plan *plan,
                          lab_mirror *mirror) {
    const cli_options *o = session->options;
    double *samples = calloc((size_t)j->repeats, sizeof *samples);
    if (!samples) {
        cli_complain(o, "out of memory");
        return CLI_NOT_POSSIBLE;
    }
    cli_exit result = mirror->gpu ? sample_gpu(session, j, plan, mirror, samples)
                                  : sample_cpu(session, j, plan, mirror, samples);
    lab_summary summary;
    lab_message why;
    if (result == CLI_HOLDS &&
        !lab_summarise(&summary, samples, (size_t)j->repeats, o->seed, &why))
        result = impossible(session, &why);
    if (result == CLI_HOLDS)
        j->median_ns = summary.median;
    free(samples);
    return result;
}

/* Mirror everything that the plan reads and writes on its device. */
static bool mirror_job(lab_mirror *mirror, const cli_session *session, const job *j,
                       lab_buffer *workspace, lab_message *why) {
    att_context *ctx = session->ctx[0];
    if (j->tensors)
        return lab_mirror_tensors(mirror, ctx, j->tensors, workspace, why);
    const lab_args args = {.attention = j->files->args};
    return lab_mirror_args(mirror, ctx, j->operation, &j->files->problem, &args, workspace,
                           why);
}

static cli_exit run_plan(const cli_session *session, job *j, const att_plan *plan) {
    lab_buffer workspace;
    lab_mirror mirror;
    lab_message why;
    if (!lab_workspace_create(&workspace, att_plan_workspace(plan), &why))
        return impossible(session, &why);
    cli_exit result;
    if (mirror_job(&mirror, session, j, &workspace, &why)) {
        j->operation->record(&mirror.any, &j->launch);
        result = time_runs(session, j, plan, &mirror);
        lab_mirror_close(&mirror);
    } else {
        result = impossible(session, &why);
    }
    lab_workspace_destroy(&workspace);
    return result;
}

static void put_launch(FILE *text, const att_launch *launch) {
    if (launch->code_sha256[0]) {
        fprintf(text,
                "launch    grid %" PRIu32 " x %" PRIu32 " x %" PRIu32 ", block %" PRIu32
                ", shared bytes %" PRIu64 ", registers %" PRIu32 "\n"
                "code      sha256 %s\n",
                launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
                launch->shared_bytes, launch->registers, launch->code_sha256);
        return;
    }
    fprintf(text,
            "launch    tasks %" PRIu32 ", parts of the keys %" PRIu32 ", threads %" PRIu32
            ", scratch bytes per thread %" PRIu64 "\n",
            launch->grid[0], launch->grid[1], launch->block[0], launch->shared_bytes);
}

/* What ran, according to the kernel's own record, and how long it took. */
static void put_result(const cli_session *session, const char *problem, const job *j,
                       double flops) {
    FILE *text = session->text;
    const char *kernel = j->launch.kernel;
    fprintf(text, "problem   %s\n", problem);
    fprintf(text, "kernel    %s\n", kernel ? kernel : "none: there was nothing to compute");
    fprintf(text, "time      %.4g ms", j->median_ns / 1e6);
    if (j->repeats > 1)
        fprintf(text, ", the median of %" PRId64 " runs", j->repeats);
    fputc('\n', text);
    if (j->median_ns > 0.0)
        fprintf(text, "speed     %.1f GFLOP/s\n", flops / j->median_ns);
    if (session->options->trace)
        put_launch(text, &j->launch);
}

static json_t *result_object(json_t *problem, const job *j, double flops) {
    const double gflops = j->median_ns > 0.0 ? flops / j->median_ns : 0.0;
    return json_pack("{s:o, s:s?, s:o, s:I, s:o, s:o, s:o}", "problem", problem, "kernel",
                     j->launch.kernel, "launch", lab_json_launch(&j->launch), "repeats",
                     (json_int_t)j->repeats, "median_ns", lab_json_number(j->median_ns),
                     "flops", lab_json_number(flops), "gflops", lab_json_number(gflops));
}

/* ------------------------------------------------------------------- random inputs */

static cli_exit run_spec(const cli_session *session, const lab_spec *spec, json_t *results) {
    const cli_options *o = session->options;
    att_plan *plan = NULL;
    if (spec->operation->plan(&plan, session->ctx[0], spec) != ATT_OK)
        return cli_library_failed(o);
    lab_tensors *tensors = NULL;
    lab_message why;
    cli_exit result = CLI_HOLDS;
    job j = {.operation = spec->operation, .repeats = o->repeats ? o->repeats : SHAPE_REPEATS};
    j.estimate = cli_estimate_run(session, j.operation, spec->operation->problem(spec),
                                  lab_spec_flops(spec));
    cli_tell_estimate(j.estimate, j.repeats);
    lab_ticker ticker;
    lab_ticker_start(&ticker, stderr, "making the inputs", 1, 0.0);
    if (!lab_tensors_create(&tensors, spec, o->seed, &why))
        result = CLI_NOT_POSSIBLE;
    lab_ticker_stop(&ticker);
    if (result != CLI_HOLDS)
        cli_complain(o, "%s", why.text);
    if (result == CLI_HOLDS) {
        j.tensors = tensors;
        result = run_plan(session, &j, plan);
        if (result == CLI_HOLDS) {
            char line[LAB_SPEC_MAX];
            const double flops = lab_spec_flops(spec);
            lab_spec_print(spec, line, sizeof line);
            put_result(session, line, &j, flops);
            json_array_append_new(results, result_object(lab_json_problem(spec), &j, flops));
        }
    }
    lab_tensors_destroy(tensors);
    att_plan_destroy(plan);
    return result;
}

static cli_exit run_specs(cli_session *session) {
    json_t *results = json_array();
    cli_exit result = CLI_HOLDS;
    for (size_t i = 0; i < session->spec_count && result == CLI_HOLDS; i++) {
        if (i > 0)
            fputc('\n', session->text);
        result = run_spec(session, &session->specs[i], results);
    }
    json_t *document = lab_json_document("attest-run-1", session->ctx[0]);
    json_object_set_new(document, "results", results);
    return cli_session_finish(session, document, result);
}

/* --------------------------------------------------------------------------- files */

static bool wants_files(const cli_options *o) {
    for (int i = 0; i < LAB_FILE_COUNT; i++)
        if (o->files.input[i])
            return true;
    return o->files.o || o->files.lse || o->files.uint16_is_bf16;
}

/* Whether both names refer to the same file. */
static bool is_same_file(const char *a, const char *b) {
    struct stat of_a, of_b;
    return strcmp(a, b) == 0 || (stat(a, &of_a) == 0 && stat(b, &of_b) == 0 &&
                                 of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino);
}

static bool check_file_options(const cli_options *o, lab_layout layout) {
    const char *const *input = o->files.input;
    if (!input[LAB_FILE_Q] || !input[LAB_FILE_K] || !input[LAB_FILE_V] || !o->files.o)
        return cli_complain(o, "--q, --k, --v and -o are needed together");
    if (o->shape_count > 0)
        return cli_complain(o, "'%s': with files, the arrays give the shape", o->shapes[0]);
    for (size_t i = 0; i < o->modifier_count; i++)
        if (o->modifiers[i].of_shape)
            return cli_complain(o, "--%s: with files, the arrays give the shape",
                                o->modifiers[i].flag);
    if (layout == LAB_PACKED)
        return cli_complain(o, "--layout packed is for shapes; arrays are bshd or bhsd");
    if (strcmp(o->files.o, "-") == 0 || (o->files.lse && strcmp(o->files.lse, "-") == 0))
        return cli_complain(o, "%s -: arrays can only be written to files",
                            strcmp(o->files.o, "-") == 0 ? "-o" : "--lse");
    if (o->files.lse && is_same_file(o->files.lse, o->files.o))
        return cli_complain(o, "-o and --lse name the same file");
    for (int i = 0; i < LAB_FILE_COUNT; i++) {
        if (input[i] && is_same_file(input[i], o->files.o))
            return cli_complain(o, "-o %s: is an input of this run", o->files.o);
        if (input[i] && o->files.lse && is_same_file(input[i], o->files.lse))
            return cli_complain(o, "--lse %s: is an input of this run", o->files.lse);
    }
    return true;
}

/* A description of the problem: array files have no spec line that could reproduce it. */
static void describe_files(const att_problem *p, char *buf, size_t n) {
    snprintf(buf, n,
             "batch=%" PRId64 " heads_q=%" PRId64 " heads_kv=%" PRId64 " seq_q=%" PRId64
             " seq_k=%" PRId64 " d_qk=%" PRId64 " d_v=%" PRId64 " dtype=%s causal=%s",
             p->batch, p->heads_q, p->heads_kv, p->seq_q, p->seq_k, p->d_qk, p->d_v,
             lab_name_of(lab_dtype_names, (int)p->dtype),
             lab_name_of(lab_causal_names, (int)p->causal));
}

static cli_exit compute_files(cli_session *session, const lab_operation *operation,
                              lab_array_files *files) {
    const cli_options *o = session->options;
    lab_message why;
    att_plan *plan = NULL;
    if (att_plan_create(&plan, session->ctx[0], &files->problem) != ATT_OK)
        return cli_library_failed(o);
    cli_exit result = CLI_HOLDS;
    if (!lab_array_files_create_outputs(files, &o->files, &why)) {
        cli_complain(o, "%s", why.text);
        result = CLI_NOT_POSSIBLE;
    }
    job j = {.operation = operation,
             .files = files,
             .repeats = o->repeats ? o->repeats : FILE_REPEATS};
    j.estimate =
        cli_estimate_run(session, j.operation, &files->problem, lab_array_files_flops(files));
    cli_tell_estimate(j.estimate, j.repeats);
    if (result == CLI_HOLDS)
        result = run_plan(session, &j, plan);
    if (result == CLI_HOLDS && !lab_array_files_commit(files, &why)) {
        cli_complain(o, "%s", why.text);
        result = CLI_NOT_POSSIBLE;
    }
    att_plan_destroy(plan);
    if (result != CLI_HOLDS)
        return result;
    char line[256];
    const double flops = lab_array_files_flops(files);
    describe_files(&files->problem, line, sizeof line);
    put_result(session, line, &j, flops);
    fprintf(session->text, "wrote     %s%s%s\n", o->files.o, o->files.lse ? ", " : "",
            o->files.lse ? o->files.lse : "");
    json_t *document = lab_json_document("attest-run-1", session->ctx[0]);
    json_object_set_new(
        document, "results",
        json_pack("[o]", result_object(lab_array_files_json(files), &j, flops)));
    return cli_session_finish(session, document, result);
}

static cli_exit run_files(cli_session *session) {
    const cli_options *o = session->options;
    lab_spec base;
    lab_spec_init(&base);
    if (!cli_apply_modifiers(o, &base) || !check_file_options(o, base.layout))
        return CLI_USAGE;
    lab_array_files files;
    lab_message why;
    if (!lab_array_files_open(&files, &o->files, &base, &why)) {
        cli_complain(o, "%s", why.text);
        return CLI_USAGE;
    }
    cli_exit result = cli_session_open(session);
    if (result == CLI_HOLDS)
        result = compute_files(session, base.operation, &files);
    lab_array_files_close(&files);
    return result;
}

cli_exit cli_run(const cli_options *o) {
    cli_session session;
    cli_exit result;
    if (wants_files(o)) {
        cli_session_start(&session, o);
        result = run_files(&session);
    } else {
        result = cli_session_begin(&session, o, NULL);
        if (result == CLI_HOLDS)
            result = run_specs(&session);
    }
    cli_session_close(&session);
    return result;
}
