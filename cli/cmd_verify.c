/* cmd_verify.c: attest verify. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/refusals.h"
#include "cli/report.h"
#include "cli/session.h"
#include "lab/base/progress.h"
#include "lab/base/table.h"
#include "lab/problem/problem_json.h"
#include "lab/verify/reference_store.h"
#include "lab/verify/verify.h"
#include "lab/verify/verify_jobs.h"
#include "lab/verify/verify_json.h"

static const lab_table_column columns[] = {
    {"problem", LAB_TABLE_LEFT}, {"kernel", LAB_TABLE_LEFT}, {"error", LAB_TABLE_RIGHT},
    {"of bar", LAB_TABLE_RIGHT}, {"result", LAB_TABLE_LEFT},
};

static json_t *results_array(const lab_verify_result *results, const cli_session *session) {
    json_t *array = json_array();
    const size_t count = session->spec_count * session->subject_count;
    for (size_t i = 0; i < count; i++) {
        json_t *row = lab_json_verify(&results[i]);
        json_object_set_new(row, "subject",
                            lab_json_subject(&session->subjects[i % session->subject_count]));
        json_object_set_new(row, "problem",
                            lab_json_problem(&session->specs[i / session->subject_count]));
        json_array_append_new(array, row);
    }
    return array;
}

/* How many outcomes are not what the list of refusals says; each is printed. */
static size_t count_unexpected(const cli_session *session, const lab_verify_result *results,
                               const cli_refusals *refusals) {
    const size_t count = session->spec_count * session->subject_count;
    size_t unexpected = 0;
    for (size_t i = 0; i < count; i++)
        if (lab_subject_is_attest(&session->subjects[i % session->subject_count]))
            unexpected += !cli_refusals_expect(
                refusals, session, &session->specs[i / session->subject_count], &results[i]);
    return unexpected;
}

static cli_exit report(cli_session *session, const lab_verify_result *results,
                       const cli_refusals *refusals) {
    FILE *text = session->text;
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    cli_tally tally = {0};
    const size_t count = session->spec_count * session->subject_count;
    for (size_t i = 0; i < count; i++) {
        char line[LAB_SPEC_MAX];
        lab_spec_print(&session->specs[i / session->subject_count], line, sizeof line);
        lab_table_cell(table, "%s", line);
        cli_put_verify_cells(table, &results[i]);
        lab_table_cell(table, "%s", cli_outcome_text(&results[i]));
        cli_tally_add(&tally, &session->subjects[i % session->subject_count], &results[i]);
    }
    lab_table_print(table, text);
    lab_table_destroy(table);
    for (size_t i = 0; i < count; i++)
        cli_put_failure(session, i % session->subject_count,
                        &session->specs[i / session->subject_count], &results[i]);
    tally.failed += count_unexpected(session, results, refusals);
    if (refusals->given)
        tally.of_refused = CLI_HOLDS; /* those that are left were expected */
    cli_put_tally(session, &tally);
    json_t *document = lab_json_document("attest-verify-1", session->ctx[0]);
    json_object_set_new(document, "seed", json_integer((json_int_t)session->options->seed));
    json_object_set_new(document, "results", results_array(results, session));
    return cli_session_finish(session, document, cli_tally_exit(&tally));
}

/* The problems of a session while they are verified. */
typedef struct verification {
    const cli_session *session;
    lab_verify_options options;
    lab_verify_result *results;
    pthread_mutex_t lock; /* of the rest */
    lab_progress bar;
    size_t finished;
} verification;

static void verify_one(void *context, size_t i) {
    verification *v = context;
    const cli_session *session = v->session;
    const lab_spec *spec = &session->specs[i / session->subject_count];
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    pthread_mutex_lock(&v->lock);
    lab_progress_update(&v->bar, v->finished++, line);
    pthread_mutex_unlock(&v->lock);
    lab_verify_subject(&v->results[i], &session->subjects[i % session->subject_count], spec,
                       &v->options);
}

/* What kernels that are verified on the same problems share, at most. */
enum { STORE_BYTES = 1 << 28 };

static cli_exit verify_all(cli_session *session, const cli_refusals *refusals) {
    const cli_options *o = session->options;
    const size_t count = session->spec_count * session->subject_count;
    verification v = {
        .session = session,
        .options = {.seed = o->seed, .rows_seed = cli_rows_seed(o), .repeats = (int)o->repeats},
        .results = calloc(count, sizeof *v.results),
        .lock = PTHREAD_MUTEX_INITIALIZER};
    const lab_spec **specs = calloc(count, sizeof *specs);
    cli_exit result = CLI_NOT_POSSIBLE;
    if (v.results && specs) {
        for (size_t i = 0; i < count; i++)
            specs[i] = &session->specs[i / session->subject_count];
        lab_progress_start(&v.bar, stderr, "verifying", count);
        lab_verify_each(specs, count, cli_jobs(o, session->ctx[0]), verify_one, &v);
        lab_progress_end(&v.bar);
        result = report(session, v.results, refusals);
    } else {
        cli_complain(o, "out of memory");
    }
    lab_reference_store_destroy(v.options.store);
    free(specs);
    free(v.results);
    return result;
}

cli_exit cli_verify(const cli_options *o) {
    cli_session session;
    cli_exit result = cli_session_begin(&session, o, "quick");
    cli_refusals refusals = {.count = 0};
    if (result == CLI_HOLDS)
        result = cli_refusals_read(&refusals, o) ? verify_all(&session, &refusals) : CLI_USAGE;
    cli_refusals_free(&refusals);
    cli_session_close(&session);
    return result;
}
