/* cmd_profile.c: attest profile: one problem under Nsight Compute, or two profiles compared. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/profile_report.h"
#include "cli/session.h"
#include "lab/base/machine.h"
#include "lab/problem/problem_json.h"
#include "lab/profile/profile_run.h"

enum { LAUNCHES = 5 }; /* the most launches of a run of the library, that of `unfused` */

static cli_exit complain(const cli_options *o, lab_profile_outcome outcome,
                         const lab_message *why) {
    const char *remedy = lab_profile_remedy(outcome);
    cli_complain(o, "%s%s%s", why->text, remedy ? "; remedy: " : "", remedy ? remedy : "");
    return CLI_NOT_POSSIBLE;
}

/* ----------------------------------------------------------------------- diff */

static json_t *diff_document(const lab_profile *before, const lab_profile *after) {
    json_t *document = lab_json_document("attest-profile-diff-1", NULL);
    json_object_set_new(document, "before", lab_profile_json(before));
    json_object_set_new(document, "after", lab_profile_json(after));
    return document;
}

static cli_exit diff(cli_session *session) {
    const cli_options *o = session->options;
    lab_profile before = {.count = 0}, after = {.count = 0};
    lab_message why;
    if (o->shape_count != 1) {
        cli_complain(o, "--diff takes two files: attest profile --diff BEFORE AFTER");
        return CLI_USAGE;
    }
    lab_profile_outcome outcome = lab_profile_read(&before, o->diff, &why);
    if (outcome == LAB_PROFILE_DONE)
        outcome = lab_profile_read(&after, o->shapes[0], &why);
    cli_exit result;
    if (outcome == LAB_PROFILE_DONE) {
        cli_put_profile_diff(session->text, &before, &after);
        result = cli_session_finish(session, diff_document(&before, &after), CLI_HOLDS);
    } else if (outcome == LAB_PROFILE_UNREADABLE) {
        cli_complain(o, "--diff: %s", why.text);
        result = CLI_USAGE;
    } else {
        result = complain(o, outcome, &why);
    }
    lab_profile_free(&before);
    lab_profile_free(&after);
    return result;
}

/* -------------------------------------------------------------------- profile */

static cli_exit report(cli_session *session, const lab_profile *profile,
                       const bool unlisted[LAB_METRICS], const char *file) {
    FILE *text = session->text;
    json_t *missing = json_array();
    cli_put_profile(text, profile);
    size_t count = 0;
    for (int m = 0; m < LAB_METRICS; m++) {
        if (!unlisted[m])
            continue;
        fprintf(text, "%s%s", count++ ? ", " : "\nnot on this GPU: ", lab_metric_rows[m].name);
        json_array_append_new(missing, json_string(lab_metric_rows[m].name));
    }
    fprintf(text, "%s\nthe report is %s.ncu-rep; times under a profiler are not benchmarks\n",
            count ? "\n" : "", file);
    if (session->csv.stream)
        cli_put_profile_csv(session->csv.stream, profile);
    json_t *document = lab_json_document("attest-profile-1", NULL);
    json_object_set_new(document, "problem", lab_json_problem(&session->specs[0]));
    json_object_set_new(document, "launches", lab_profile_json(profile));
    json_object_set_new(document, "missing", missing);
    return cli_session_finish(session, document, CLI_HOLDS);
}

/* The path of this program, for starting a child. */
static bool own_path(const cli_options *o, char *buf, size_t n) {
    const ssize_t length = readlink("/proc/self/exe", buf, n - 1);
    if (length <= 0)
        return cli_complain(o, "cannot find the path of this program");
    buf[length] = '\0';
    return true;
}

/* FILE of -o FILE or FILE.ncu-rep. */
static void name_report(const cli_options *o, char *buf, size_t n) {
    static const char suffix[] = ".ncu-rep";
    const char *name = o->folder ? o->folder : "attest-profile";
    const size_t length = strlen(name), tail = sizeof suffix - 1;
    const bool has = length > tail && strcmp(name + length - tail, suffix) == 0;
    snprintf(buf, n, "%.*s", (int)(has ? length - tail : length), name);
}

static cli_exit profile(cli_session *session) {
    const cli_options *o = session->options;
    char program[4096], file[4096], line[LAB_SPEC_MAX], device[24], seed[24];
    if (session->spec_count != 1) {
        cli_complain(o, "expected one problem: profile runs one at a time");
        return CLI_USAGE;
    }
    if (!own_path(o, program, sizeof program))
        return CLI_NOT_POSSIBLE;
    lab_spec_print(&session->specs[0], line, sizeof line);
    snprintf(device, sizeof device, "cuda:%d", o->device_index);
    snprintf(seed, sizeof seed, "%" PRIu64, o->seed);
    const char *command[16] = {program, "run",    "--shape", line,       "--device",
                               device,  "--seed", seed,      "--repeat", "1"};
    size_t count = 10;
    if (o->allow_slow)
        command[count++] = "--allow-slow";
    if (o->kernel_count) {
        command[count++] = "--kernel";
        command[count++] = o->kernels[0];
    }
    name_report(o, file, sizeof file);
    const lab_profile_job job = {
        .command = command, .report = file, .launches = LAUNCHES, .stream = stderr};
    lab_profile found;
    bool unlisted[LAB_METRICS];
    lab_message why;
    const lab_profile_outcome outcome = lab_profile_run(&found, unlisted, &job, &why);
    if (outcome != LAB_PROFILE_DONE)
        return complain(o, outcome, &why);
    const cli_exit result = report(session, &found, unlisted, job.report);
    lab_profile_free(&found);
    return result;
}

static cli_exit begin_profile(cli_session *session) {
    const cli_options *o = session->options;
    lab_message why;
    if (o->device == ATT_DEVICE_CPU) {
        cli_complain(o, "--device cpu: Nsight Compute profiles GPUs");
        return CLI_USAGE;
    }
    cli_exit result = cli_session_begin_problems(session, o, NULL);
    if (result == CLI_HOLDS && lab_gpu_count(&why) <= o->device_index) {
        cli_complain(o, "there is no GPU %d here: %s", o->device_index,
                     o->device_index ? "see attest info" : why.text);
        result = CLI_NOT_POSSIBLE;
    }
    return result == CLI_HOLDS ? profile(session) : result;
}

cli_exit cli_profile(const cli_options *o) {
    cli_session session;
    cli_session_start(&session, o);
    cli_exit result;
    if (o->diff) {
        result = cli_session_open_documents(&session);
        if (result == CLI_HOLDS)
            result = diff(&session);
    } else {
        result = begin_profile(&session);
    }
    cli_session_close(&session);
    return result;
}
