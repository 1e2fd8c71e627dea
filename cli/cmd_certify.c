/* cmd_certify.c: attest certify: makes statements, or checks them against this build. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/evidence_report.h"
#include "cli/report.h"
#include "cli/session.h"
#include "lab/base/interrupt.h"
#include "lab/base/json.h"
#include "lab/evidence/certify.h"
#include "lab/evidence/host_tests.h"
#include "lab/evidence/place.h"
#include "lab/measure/injection.h"
#include "lab/measure/nvml.h"
#include "lab/subject/peer_crash.h"
#include "lab/verify/reference_store.h"

/* ---------------------------------------------------------------------- check */

static cli_exit put_judgement(cli_session *session, const lab_evidence *evidence,
                              const lab_judgement *judgement) {
    const cli_options *o = session->options;
    char *folder = realpath(evidence->folder, NULL);
    if (folder)
        fprintf(session->text, "evidence: %s\n", folder);
    free(folder);
    const size_t failed = cli_put_faults(session->text, judgement, evidence->folder);
    cli_put_standings(session->text, judgement);
    if (judgement->count == 0 && failed == 0)
        fprintf(session->text, "no evidence found, and none is required\n");
    fprintf(session->text, "%zu checked, ", judgement->count);
    cli_put_failed(session->text, failed);
    fputc('\n', session->text);
    json_t *document = lab_json_document("attest-evidence-1", NULL);
    json_object_set_new(document, "folder", json_string(evidence->folder));
    json_object_set_new(document, "kernels", cli_evidence_array(judgement, NULL));
    json_object_set_new(document, "files", cli_evidence_files(judgement));
    cli_exit result = failed ? CLI_CHECK_FAILED : CLI_HOLDS;
    if (!failed && judgement->unknown) {
        cli_complain(o, "signatures cannot be checked: there is no ssh-keygen here (Debian: "
                        "openssh-client)");
        result = CLI_NOT_POSSIBLE;
    }
    return cli_session_finish(session, document, result);
}

static cli_exit check(cli_session *session) {
    lab_evidence evidence;
    lab_judgement judgement;
    cli_exit result = cli_evidence_read(session->options, &evidence, &judgement);
    if (result == CLI_HOLDS)
        result = put_judgement(session, &evidence, &judgement);
    lab_judgement_free(&judgement);
    lab_evidence_free(&evidence);
    return result;
}

/* ----------------------------------------------------------------------- make */

/* Create `path` and its parent folders. */
static bool make_folders(const cli_options *o, const char *path) {
    char part[1024];
    if (strlen(path) >= sizeof part)
        return cli_complain(o, "-o: the name is too long");
    for (size_t i = 1; i <= strlen(path); i++) {
        if (path[i] != '/' && path[i])
            continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return cli_complain(o, "-o %s: %s: %s", path, part, strerror(errno));
    }
    return true;
}

/* Write the statement (consumed) as FOLDER/KERNEL.json and sign it if a key is given. An old
 * signature is removed first: it would be for other bytes. */
static cli_exit keep(const cli_options *o, const char *folder, const char *kernel,
                     json_t *statement) {
    char path[1200];
    lab_message why;
    cli_sink sink = {.stream = NULL};
    snprintf(path, sizeof path, "%s/%s.json.sig", folder, kernel);
    unlink(path);
    snprintf(path, sizeof path, "%s/%s.json", folder, kernel);
    if (!cli_sink_open(&sink, o, path)) {
        json_decref(statement);
        return CLI_NOT_POSSIBLE;
    }
    bool ok = lab_json_write(statement, sink.stream, &why) || cli_complain(o, "%s", why.text);
    ok = ok && cli_sink_commit(&sink, o);
    cli_sink_discard(&sink);
    bool missing;
    if (ok && o->sign && !lab_sign_file(path, o->sign, &missing, &why))
        ok = cli_complain(o, "--sign: %s%s", why.text,
                          missing ? "; Debian's openssh-client has it" : "");
    return ok ? CLI_HOLDS : CLI_NOT_POSSIBLE;
}

/* The most bytes of reference answers that kernels share in memory. */
enum { STORE_BYTES = 1 << 29 };

/* The state of a run: what was asked for, what failed, and the worst exit code. */
typedef struct tally {
    size_t total, count, failed;
    double seconds;
    cli_exit result;
} tally;

/* Report the outcome of a kernel or a plug-in: a line of text, an object for the document, a
 * file. */
static void conclude(const cli_session *session, lab_certified *done, const char *folder,
                     json_t *results, tally *t) {
    cli_exit result = done->statement    ? CLI_HOLDS
                      : done->impossible ? CLI_NOT_POSSIBLE
                                         : CLI_CHECK_FAILED;
    if (done->statement)
        result = keep(session->options, folder, done->kernel, done->statement);
    const char *outcome = result == CLI_HOLDS          ? "certified"
                          : result == CLI_CHECK_FAILED ? "FAIL"
                                                       : "not certified";
    t->count++;
    t->failed += result != CLI_HOLDS;
    t->seconds += done->seconds;
    if (t->result == CLI_HOLDS || result == CLI_CHECK_FAILED)
        t->result = result;
    fprintf(session->text,
            "%2zu/%zu %-36s %3zu verified %2zu timed, error at most %3.0f %% of its bar, "
            "%5.1f s  %s%s%s\n",
            t->count, t->total, done->kernel, done->checked, done->timed,
            100.0 * done->worst_share, done->seconds, outcome, done->why.text[0] ? ": " : "",
            done->why.text);
    fflush(session->text);
    json_array_append_new(
        results, json_pack("{s:s, s:s, s:I, s:I, s:o, s:f, s:s}", "kernel", done->kernel,
                           "outcome", outcome, "verified", (json_int_t)done->checked, "timed",
                           (json_int_t)done->timed, "worst_share_of_bar",
                           lab_json_number(done->worst_share), "seconds", done->seconds,
                           "message", done->why.text));
}

/* The next kernel after row *i to certify here: of those that match, every N-th if parts were
 * asked for. *seen counts the matches before it. */
static bool next_kernel(const cli_session *session, const char *pattern, size_t *i,
                        int64_t *seen) {
    const cli_options *o = session->options;
    for (++*i; *i < att_kernel_count(); ++*i)
        if (lab_certify_wants(session->ctx[0], *i, pattern) &&
            (o->parts == 0 || (*seen)++ % o->parts == o->part - 1))
            return true;
    return false;
}

static void certify_kernels(const cli_session *session, const lab_certify *job,
                            const char *pattern, const char *folder, json_t *results,
                            tally *t) {
    int64_t seen = 0;
    for (size_t i = SIZE_MAX; next_kernel(session, pattern, &i, &seen);) {
        lab_certified done;
        lab_certify_kernel(&done, job, i, stderr);
        if (lab_interrupted()) { /* its samples ended early: it gets no statement */
            json_decref(done.statement);
            return;
        }
        conclude(session, &done, folder, results, t);
    }
}

/* The statements of finished kernels are in the folder already. */
static cli_exit finish_interrupted(cli_session *session, json_t *document, const tally *t,
                                   const char *folder) {
    json_object_set_new(document, "interrupted", json_true());
    const cli_exit written = cli_session_finish(session, document, CLI_INTERRUPTED);
    if (written == CLI_INTERRUPTED)
        cli_complain(session->options,
                     "interrupted: %zu of %zu were finished; their statements are kept in %s",
                     t->count, t->total, folder);
    return written;
}

static bool certify_peers(cli_session *session, const lab_certify *job, const char *folder,
                          json_t *results, tally *t) {
    const cli_options *o = session->options;
    lab_peer_limit(o->peer_limit);
    for (; session->peer_count < o->peer_count; session->peer_count++) {
        lab_peer *peer = &session->peers[session->peer_count];
        lab_certified done;
        lab_message why;
        if (!lab_peer_load(peer, o->peers[session->peer_count], &why))
            return cli_complain(o, "--peer %s", why.text);
        lab_certify_peer(&done, job, peer, session->ctx[0], stderr);
        conclude(session, &done, folder, results, t);
    }
    return true;
}

/* Plug-ins if they are named; kernels if they are named or nothing is. */
static cli_exit certify_all(cli_session *session, const lab_certify *job, const char *folder) {
    const cli_options *o = session->options;
    const char *pattern = o->kernel_count ? o->kernels[0] : NULL;
    json_t *results = json_array();
    tally t = {.total = o->peer_count, .result = CLI_HOLDS};
    const bool kernels = pattern || o->peer_count == 0;
    int64_t seen = 0;
    for (size_t i = SIZE_MAX; kernels && next_kernel(session, pattern, &i, &seen);)
        t.total++;
    lab_interrupt_listen(
        "\nattest certify: interrupted; the statements of finished kernels are kept "
        "(Ctrl-C again stops at once)\n");
    if (kernels)
        certify_kernels(session, job, pattern, folder, results, &t);
    bool ok = lab_interrupted() || t.count > 0 || (!pattern && o->peer_count > 0) ||
              cli_complain(o, "--kernel %s: no production kernel of this device matches%s",
                           pattern ? pattern : "*", o->parts ? ", or this part has none" : "");
    ok = ok && (lab_interrupted() || certify_peers(session, job, folder, results, &t));
    if (!ok) {
        json_decref(results);
        return CLI_USAGE;
    }
    json_t *document = lab_json_document("attest-certify-1", session->ctx[0]);
    json_object_set_new(document, "folder", json_string(folder));
    json_object_set_new(document, "results", results);
    json_object_set_new(document, "seconds", json_real(t.seconds));
    if (lab_interrupted())
        return finish_interrupted(session, document, &t, folder);
    fprintf(session->text, "%zu of %zu certified in %.0f s, in %s, %s\n", t.count - t.failed,
            t.count, t.seconds, folder, o->sign ? "signed" : "unsigned");
    return cli_session_finish(session, document, t.result);
}

/* The context that describes the device, and the folder of its evidence: `part` of the device's
 * folder. Nothing is certified under variables that change the measurement. */
static cli_exit open_device(cli_session *session, att_context_info *info, const char *part,
                            char *folder, size_t n) {
    const cli_options *o = session->options;
    const att_context_options options = {.size = sizeof options,
                                         .device = o->device,
                                         .device_index = o->device_index,
                                         .threads = (int32_t)o->threads,
                                         .rows = ""};
    char place[96];
    lab_message why;
    if (lab_injection_found(&why)) {
        cli_complain(o, "%s", why.text);
        return CLI_NOT_POSSIBLE;
    }
    if (att_context_create(&session->ctx[0], &options) != ATT_OK)
        return cli_library_failed(o);
    session->ctx_count = 1;
    if (att_context_query(session->ctx[0], info) != ATT_OK)
        return cli_library_failed(o);
    if (info->device == ATT_DEVICE_CUDA)
        lab_place_name(info->gpu_name, place, sizeof place);
    else
        lab_place_cpu(info->name, info->isa_machine, place, sizeof place);
    if (o->folder)
        snprintf(folder, n, "%s", o->folder);
    else
        snprintf(folder, n, "evidence/%s%s", place, part);
    return make_folders(o, folder) ? CLI_HOLDS : CLI_NOT_POSSIBLE;
}

static bool read_suites(const cli_options *o, lab_certify *job) {
    const bool gpu = job->device == ATT_DEVICE_CUDA;
    const char *checked = o->suite_count ? o->suites[0] : NULL;
    lab_message why;
    job->checked_name = checked ? checked : gpu ? LAB_CHECKED_GPU : LAB_CHECKED_CPU;
    job->timed_name = o->timed ? o->timed : gpu ? LAB_TIMED_GPU : LAB_TIMED_CPU;
    if (o->suite_count > 1)
        return cli_complain(o, "--suite may be given once here");
    return lab_suite_set_read(&job->suites, gpu, checked, o->timed, &why) ||
           cli_complain(o, "%s", why.text);
}

static cli_exit make(cli_session *session) {
    const cli_options *o = session->options;
    char folder[1024];
    att_context_info info = {.size = sizeof info};
    cli_exit result = open_device(session, &info, "/attestations", folder, sizeof folder);
    if (result != CLI_HOLDS)
        return result;
    lab_certify job = {.device = info.device,
                       .device_index = info.device_index,
                       .threads = info.threads,
                       .at_once = cli_jobs(o, session->ctx[0]),
                       .store = o->peer_count ? NULL : lab_reference_store_create(STORE_BYTES),
                       .bench = lab_bench_defaults()};
    /* Kept open: starting it for every kernel takes longer than reading it. */
    lab_nvml *nvml = info.device == ATT_DEVICE_CUDA ? lab_nvml_open(info.gpu_uuid, NULL) : NULL;
    job.bench.at_once = job.at_once;
    job.bench.store = job.store;
    job.bench.seed = o->seed;
    job.bench.rows_seed = cli_rows_seed(o);
    job.bench.min_samples = (size_t)o->min_samples;
    job.bench.max_samples = (size_t)o->max_samples;
    job.bench.seconds = o->seconds;
    job.bench.warmup_seconds = 0.05;
    result = read_suites(o, &job) ? certify_all(session, &job, folder) : CLI_USAGE;
    lab_suite_set_free(&job.suites);
    lab_reference_store_destroy(job.store);
    lab_nvml_close(nvml);
    return result;
}

/* The results of gpu_tests.sh, as FOLDER/host.json. */
static cli_exit state_host_tests(cli_session *session) {
    const cli_options *o = session->options;
    char folder[1024];
    lab_message why;
    att_context_info info = {.size = sizeof info};
    cli_exit result = open_device(session, &info, "", folder, sizeof folder);
    if (result != CLI_HOLDS)
        return result;
    json_t *statement = lab_host_tests_make(o->host_tests, session->ctx[0], &why);
    if (!statement) {
        cli_complain(o, "--host-tests: %s", why.text);
        return CLI_CHECK_FAILED;
    }
    result = keep(o, folder, "host", statement);
    if (result == CLI_HOLDS)
        fprintf(session->text, "the results of the host code's tests are in %s/host.json, %s\n",
                folder, o->sign ? "signed" : "unsigned");
    return result;
}

cli_exit cli_certify(const cli_options *o) {
    cli_session session;
    cli_session_start(&session, o);
    cli_exit result = cli_session_open_documents(&session);
    if (result == CLI_HOLDS)
        result = o->check        ? check(&session)
                 : o->host_tests ? state_host_tests(&session)
                                 : make(&session);
    cli_session_close(&session);
    return result;
}
