/* cmd_verify.c: attest verify. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/refusals.h"
#include "cli/report.h"
#include "cli/session.h"
#include "lab/base/interrupt.h"
#include "lab/base/progress.h"
#include "lab/base/table.h"
#include "lab/problem/problem_json.h"
#include "lab/verify/reference_store.h"
#include "lab/verify/verify.h"
#include "lab/verify/verify_jobs.h"
#include "lab/verify/verify_json.h"

static const lab_table_column columns[] = {
    {"problem", LAB_TABLE_LEFT}, {"kernel", LAB_TABLE_LEFT},    {"error", LAB_TABLE_RIGHT},
    {"of bar", LAB_TABLE_RIGHT}, {"result", LAB_TABLE_VERDICT},
};

/* The result of each subject on each problem. */
typedef struct answers {
    lab_verify_result *results;
    bool *reached; /* false: the user stopped before */
    size_t count;
} answers;

static json_t *results_array(const answers *a, const cli_session *session) {
    json_t *array = json_array();
    for (size_t i = 0; i < a->count; i++) {
        if (!a->reached[i])
            continue;
        json_t *row = lab_json_verify(&a->results[i]);
        json_object_set_new(row, "subject",
                            lab_json_subject(&session->subjects[i % session->subject_count]));
        json_object_set_new(row, "problem",
                            lab_json_problem(&session->specs[i / session->subject_count]));
        json_array_append_new(array, row);
    }
    return array;
}

/* Print the outcomes that differ from the list of refusals, and return their number. */
static size_t count_unexpected(const cli_session *session, const answers *a,
                               const cli_refusals *refusals) {
    size_t unexpected = 0;
    for (size_t i = 0; i < a->count; i++)
        if (a->reached[i] &&
            lab_subject_is_attest(&session->subjects[i % session->subject_count]))
            unexpected += !cli_refusals_expect(
                refusals, session, &session->specs[i / session->subject_count], &a->results[i]);
    return unexpected;
}

static cli_tally put_table(const cli_session *session, const answers *a) {
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    cli_tally tally = {0};
    for (size_t i = 0; i < a->count; i++) {
        char line[LAB_SPEC_MAX];
        if (!a->reached[i])
            continue;
        lab_spec_print(&session->specs[i / session->subject_count], line, sizeof line);
        lab_table_cell(table, "%s", line);
        cli_put_verify_cells(table, &a->results[i]);
        lab_table_cell(table, "%s", cli_outcome_text(&a->results[i]));
        cli_tally_add(&tally, &session->subjects[i % session->subject_count], &a->results[i]);
    }
    lab_table_print(table, session->text);
    lab_table_destroy(table);
    return tally;
}

/* Finish with what was verified until the user stopped: kept like a complete run, and marked as
 * incomplete. */
static cli_exit finish(cli_session *session, const answers *a, json_t *document,
                       cli_exit outcome) {
    const cli_options *o = session->options;
    size_t reached = 0;
    for (size_t i = 0; i < a->count; i++)
        reached += a->reached[i];
    if (reached == a->count)
        return cli_session_finish(session, document, outcome);
    json_object_set_new(document, "interrupted", json_true());
    const cli_exit written = cli_session_finish(session, document, CLI_INTERRUPTED);
    if (written == CLI_INTERRUPTED)
        cli_complain(o, "interrupted: %zu of %zu answers were verified%s%s", reached, a->count,
                     o->json ? ", and are kept in " : "", o->json ? o->json : "");
    return written;
}

static cli_exit report(cli_session *session, const answers *a, const cli_refusals *refusals) {
    cli_tally tally = put_table(session, a);
    for (size_t i = 0; i < a->count; i++)
        if (a->reached[i])
            cli_put_failure(session, i % session->subject_count,
                            &session->specs[i / session->subject_count], &a->results[i]);
    tally.failed += count_unexpected(session, a, refusals);
    if (refusals->given)
        tally.of_refused = CLI_HOLDS; /* the remaining ones were expected */
    cli_put_tally(session, &tally);
    json_t *document = lab_json_document("attest-verify-1", session->ctx[0]);
    json_object_set_new(document, "seed", json_integer((json_int_t)session->options->seed));
    json_object_set_new(document, "results", results_array(a, session));
    return finish(session, a, document, cli_tally_exit(&tally));
}

/* The problems of a session during verification. */
typedef struct verification {
    const cli_session *session;
    lab_verify_options options;
    answers answers;
    pthread_mutex_t lock; /* of the other fields */
    lab_progress bar;
    size_t finished;
    bool one_at_a_time;
} verification;

/* The most bytes of answers shared by kernels that are verified on the same problems. A full store
 * keeps no more, so each problem has one of its own where problems come one after the other. */
enum { STORE_BYTES = 1 << 28 };

static void share_answers(verification *v, size_t i) {
    if (!v->one_at_a_time || i % v->session->subject_count != 0)
        return;
    lab_reference_store_destroy(v->options.store);
    v->options.store = lab_reference_store_create(STORE_BYTES);
}

static void verify_one(void *context, size_t i) {
    verification *v = context;
    const cli_session *session = v->session;
    const lab_spec *spec = &session->specs[i / session->subject_count];
    char line[LAB_SPEC_MAX];
    if (lab_interrupted())
        return;
    share_answers(v, i);
    lab_spec_print(spec, line, sizeof line);
    pthread_mutex_lock(&v->lock);
    lab_progress_update(&v->bar, v->finished++, line);
    pthread_mutex_unlock(&v->lock);
    lab_verify_subject(&v->answers.results[i], &session->subjects[i % session->subject_count],
                       spec, &v->options);
    v->answers.reached[i] = true;
}

static cli_exit verify_all(cli_session *session, const cli_refusals *refusals) {
    const cli_options *o = session->options;
    const size_t count = session->spec_count * session->subject_count;
    const int jobs = cli_jobs(o, session->ctx[0]);
    verification v = {.session = session,
                      .options = {.seed = o->seed,
                                  .rows_seed = cli_rows_seed(o),
                                  .repeats = (int)o->repeats,
                                  .store = lab_reference_store_create(STORE_BYTES)},
                      .answers = {.results = calloc(count, sizeof(lab_verify_result)),
                                  .reached = calloc(count, sizeof(bool)),
                                  .count = count},
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .one_at_a_time = jobs == 1};
    const lab_spec **specs = calloc(count, sizeof(const void *));
    cli_exit result = CLI_NOT_POSSIBLE;
    if (v.answers.results && v.answers.reached && specs) {
        for (size_t i = 0; i < count; i++)
            specs[i] = &session->specs[i / session->subject_count];
        lab_interrupt_listen("\nattest verify: interrupted; what was verified is kept (Ctrl-C "
                             "again stops at once)\n");
        lab_progress_start(&v.bar, stderr, "verifying", count);
        lab_verify_each(specs, count, jobs, verify_one, &v);
        lab_progress_end(&v.bar);
        result = report(session, &v.answers, refusals);
    } else {
        cli_complain(o, "out of memory");
    }
    lab_reference_store_destroy(v.options.store);
    free(specs);
    free(v.answers.results);
    free(v.answers.reached);
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
