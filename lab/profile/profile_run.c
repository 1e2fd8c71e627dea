/* profile_run.c: three runs of ncu: the available metrics, the profile, the report as a
 * table. */
#include "lab/profile/profile_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/base/spawn.h"
#include "lab/base/ticker.h"

enum { ARGUMENTS_MOST = 128, METRICS_BYTES = 4096 };

const char *lab_profile_remedy(lab_profile_outcome outcome) {
    switch (outcome) {
    case LAB_PROFILE_NO_TOOL:
        return "install Nsight Compute (it is part of the CUDA toolkit), or name its ncu in "
               "ATTEST_NCU";
    case LAB_PROFILE_FORBIDDEN:
        return "run as root, give a container --cap-add=SYS_ADMIN, or let every user read "
               "counters: 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' in "
               "/etc/modprobe.d, then reload the driver";
    default:
        return NULL;
    }
}

static const char *find_tool(void) {
    static const char elsewhere[] = "/usr/local/cuda/bin/ncu";
    const char *named = secure_getenv("ATTEST_NCU");
    if (named && *named)
        return named;
    const char *path = getenv("PATH");
    for (const char *at = path ? path : ""; *at;) {
        char file[4096];
        const int length = (int)strcspn(at, ":");
        if (snprintf(file, sizeof file, "%.*s/ncu", length, at) < (int)sizeof file &&
            access(file, X_OK) == 0)
            return "ncu";
        at += length + (at[length] == ':');
    }
    return access(elsewhere, X_OK) == 0 ? elsewhere : "ncu";
}

/* Copy the first line with "==ERROR==" of ncu's output, or else its first line: later lines are
 * consequences. */
static void copy_complaint(char *buf, size_t n, const lab_child *child) {
    const char *found = child->out ? strstr(child->out, "==ERROR==") : NULL;
    if (!found && child->error)
        found = strstr(child->error, "==ERROR==");
    if (!found)
        found = child->error && *child->error ? child->error : child->out;
    snprintf(buf, n, "%.*s", (int)strcspn(found ? found : "", "\r\n"), found ? found : "");
}

static bool says(const lab_child *child, const char *word) {
    return (child->out && strstr(child->out, word)) ||
           (child->error && strstr(child->error, word));
}

static lab_profile_outcome judge(const lab_child *child, lab_message *why) {
    char complaint[320];
    if (says(child, "ERR_NVGPUCTRPERM")) {
        lab_fail(why, "the driver does not let this user read performance counters "
                      "(ERR_NVGPUCTRPERM)");
        return LAB_PROFILE_FORBIDDEN;
    }
    if (child->status == 0 && !says(child, "==ERROR=="))
        return LAB_PROFILE_DONE;
    copy_complaint(complaint, sizeof complaint, child);
    lab_fail(why, "ncu ended with %d: %s", child->status, complaint);
    return LAB_PROFILE_FAILED;
}

/* Start ncu; the caller frees the child if the outcome is DONE. */
static lab_profile_outcome start(lab_child *child, const char *const argv[], lab_message *why) {
    bool missing;
    if (!lab_spawn(child, argv, NULL, &missing, why))
        return missing ? LAB_PROFILE_NO_TOOL : LAB_PROFILE_FAILED;
    const lab_profile_outcome outcome = judge(child, why);
    if (outcome != LAB_PROFILE_DONE)
        lab_child_free(child);
    return outcome;
}

/* Ask ncu which metrics this GPU has. If it does not say, none is left out. */
static lab_profile_outcome find_unlisted(const char *tool, bool unlisted[LAB_METRICS],
                                         lab_message *why) {
    const char *const argv[] = {tool, "--query-metrics", NULL};
    lab_child child;
    memset(unlisted, 0, LAB_METRICS * sizeof *unlisted);
    const lab_profile_outcome outcome = start(&child, argv, why);
    if (outcome != LAB_PROFILE_DONE)
        return outcome == LAB_PROFILE_NO_TOOL ? outcome : LAB_PROFILE_DONE;
    const bool lists = lab_metric_listed(LAB_METRIC_TIME, child.out);
    for (int i = 0; i < LAB_METRICS; i++)
        unlisted[i] = lists && !lab_metric_listed((lab_metric)i, child.out);
    lab_child_free(&child);
    return LAB_PROFILE_DONE;
}

static void list_metrics(char list[METRICS_BYTES], const bool unlisted[LAB_METRICS]) {
    size_t used = 0;
    list[0] = '\0';
    for (int i = 0; i < LAB_METRICS; i++)
        if (!unlisted[i] && used < METRICS_BYTES)
            used += (size_t)snprintf(list + used, METRICS_BYTES - used, "%s%s", used ? "," : "",
                                     lab_metric_rows[i].name);
}

/* Whether an error line names the metric, with or without its suffix. */
static bool complains_of(const char *text, const char *metric) {
    for (const char *at = text; at && (at = strstr(at, "==ERROR=="));) {
        const size_t length = strcspn(at, "\r\n");
        const char *found = memmem(at, length, metric, strcspn(metric, "."));
        if (found)
            return true;
        at += length;
    }
    return false;
}

/* ncu profiles nothing at all if it does not know a metric: leave out those that it names. If
 * it names none, leave out the metrics that it derives from others first: no list has them.
 * Returns how many were left out. */
static int leave_out(const lab_child *child, bool unlisted[LAB_METRICS]) {
    int named = 0, derived = 0;
    for (int i = 0; i < LAB_METRICS; i++) {
        const char *name = lab_metric_rows[i].name;
        if (unlisted[i] ||
            (!complains_of(child->out, name) && !complains_of(child->error, name)))
            continue;
        unlisted[i] = true;
        named++;
    }
    for (int i = 0; i < LAB_METRICS && named == 0; i++)
        if (!unlisted[i] && strncmp(lab_metric_rows[i].name, "derived__", 9) == 0) {
            unlisted[i] = true;
            derived++;
        }
    return named + derived;
}

/* Profile; *again if it failed and metrics were left out, so that another attempt may
 * succeed. */
static lab_profile_outcome collect(const char *tool, bool unlisted[LAB_METRICS],
                                   const lab_profile_job *job, bool *again, lab_message *why) {
    char metrics[METRICS_BYTES], launches[16];
    const char *argv[ARGUMENTS_MOST] = {tool,        "--clock-control", "none",
                                        "--export",  job->report,       "--force-overwrite",
                                        "--metrics", metrics,           "--launch-count",
                                        launches};
    list_metrics(metrics, unlisted);
    snprintf(launches, sizeof launches, "%d", job->launches);
    size_t count = 10;
    for (const char *const *word = job->command; *word && count + 1 < ARGUMENTS_MOST; word++)
        argv[count++] = *word;
    lab_child child;
    bool missing;
    *again = false;
    if (!lab_spawn(&child, argv, NULL, &missing, why))
        return missing ? LAB_PROFILE_NO_TOOL : LAB_PROFILE_FAILED;
    const lab_profile_outcome outcome = judge(&child, why);
    *again = outcome == LAB_PROFILE_FAILED && leave_out(&child, unlisted) > 0;
    lab_child_free(&child);
    return outcome;
}

static lab_profile_outcome import_report(lab_profile *profile, const char *tool,
                                         const char *path, lab_message *why) {
    const char *const argv[] = {tool, "--import", path, "--csv", "--page", "raw", NULL};
    lab_child child;
    const lab_profile_outcome outcome = start(&child, argv, why);
    if (outcome != LAB_PROFILE_DONE)
        return outcome;
    const bool ok = lab_profile_parse(profile, child.out, why);
    lab_child_free(&child);
    return ok ? LAB_PROFILE_DONE : LAB_PROFILE_UNREADABLE;
}

/* The runs of ncu: the metrics, the profile, the report. */
enum { RUNS = 3 };

static lab_profile_outcome run_all(lab_profile *profile, bool unlisted[LAB_METRICS],
                                   const lab_profile_job *job, lab_ticker *ticker,
                                   lab_message *why) {
    const char *tool = find_tool();
    char report[4096];
    lab_profile_outcome outcome = find_unlisted(tool, unlisted, why);
    lab_ticker_done(ticker, 1);
    for (bool again = outcome == LAB_PROFILE_DONE; again;)
        outcome = collect(tool, unlisted, job, &again, why);
    lab_ticker_done(ticker, 2);
    if (outcome != LAB_PROFILE_DONE)
        return outcome;
    snprintf(report, sizeof report, "%s.ncu-rep", job->report);
    return import_report(profile, tool, report, why);
}

lab_profile_outcome lab_profile_run(lab_profile *profile, bool unlisted[LAB_METRICS],
                                    const lab_profile_job *job, lab_message *why) {
    lab_ticker ticker;
    *profile = (lab_profile){.count = 0};
    lab_ticker_start(&ticker, job->stream, "running ncu", RUNS, 0.0);
    const lab_profile_outcome outcome = run_all(profile, unlisted, job, &ticker, why);
    lab_ticker_stop(&ticker);
    return outcome;
}

lab_profile_outcome lab_profile_read(lab_profile *profile, const char *path, lab_message *why) {
    static const char suffix[] = ".ncu-rep";
    const size_t length = strlen(path), tail = sizeof suffix - 1;
    *profile = (lab_profile){.count = 0};
    if (length > tail && strcmp(path + length - tail, suffix) == 0)
        return import_report(profile, find_tool(), path, why);
    return lab_profile_read_json(profile, path, why) ? LAB_PROFILE_DONE
                                                     : LAB_PROFILE_UNREADABLE;
}
