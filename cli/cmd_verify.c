/* cmd_verify.c: attest verify. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/refusals.h"
#include "cli/report.h"
#include "cli/session.h"
#include "lab/base/progress.h"
#include "lab/base/table.h"
#include "lab/problem/problem_json.h"
#include "lab/verify/verify.h"
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

static cli_exit verify_all(cli_session *session, const cli_refusals *refusals) {
    const size_t count = session->spec_count * session->subject_count;
    lab_verify_result *results = calloc(count, sizeof *results);
    if (!results) {
        cli_complain(session->options, "out of memory");
        return CLI_NOT_POSSIBLE;
    }
    const lab_verify_options options = {.seed = session->options->seed,
                                        .rows_seed = cli_rows_seed(session->options),
                                        .repeats = (int)session->options->repeats};
    lab_progress bar;
    lab_progress_start(&bar, stderr, "verifying", count);
    for (size_t i = 0; i < count; i++) {
        const lab_spec *spec = &session->specs[i / session->subject_count];
        char line[LAB_SPEC_MAX];
        lab_spec_print(spec, line, sizeof line);
        lab_progress_update(&bar, i, line);
        lab_verify_subject(&results[i], &session->subjects[i % session->subject_count], spec,
                           &options);
    }
    lab_progress_end(&bar);
    const cli_exit result = report(session, results, refusals);
    free(results);
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
