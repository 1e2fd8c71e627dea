/* report.c: text for verification results. */
#include "cli/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/base/screen.h"

void cli_tally_add(cli_tally *tally, const lab_subject *subject,
                   const lab_verify_result *result) {
    if (result->outcome == LAB_PASS) {
        tally->passed++;
    } else if (result->outcome == LAB_FAIL) {
        tally->failed++;
    } else if (result->status == ATT_OK) {
        tally->skipped++;
    } else if (!lab_subject_is_attest(subject)) {
        tally->declined++;
    } else {
        if (tally->refused == 0)
            tally->of_refused = cli_exit_of_status(result->status);
        tally->refused++;
    }
}

cli_exit cli_tally_exit(const cli_tally *tally) {
    if (tally->failed)
        return CLI_CHECK_FAILED;
    if (tally->refused)
        return tally->of_refused;
    return tally->passed ? CLI_HOLDS : CLI_NOT_POSSIBLE;
}

void cli_put_tally(const cli_session *session, const cli_tally *tally) {
    FILE *text = session->text;
    fprintf(text, "\n%zu passed, ", tally->passed);
    cli_put_failed(text, tally->failed);
    if (tally->refused)
        fprintf(text, ", %zu refused", tally->refused);
    if (tally->declined)
        fprintf(text, ", %zu declined by a peer", tally->declined);
    if (tally->skipped)
        fprintf(text, ", %zu skipped for lack of memory", tally->skipped);
    fputc('\n', text);
}

void cli_put_failed(FILE *text, size_t failed) {
    lab_screen_tint(text, failed ? LAB_TINT_BAD : LAB_TINT_GOOD);
    fprintf(text, "%zu failed", failed);
    lab_screen_tint(text, LAB_TINT_NONE);
}

const char *cli_outcome_text(const lab_verify_result *result) {
    switch (result->outcome) {
    case LAB_PASS:
        return "pass";
    case LAB_FAIL:
        return "FAIL";
    case LAB_REFUSED:
        return result->status == ATT_OK ? "no memory" : "refused";
    }
    return "?";
}

void cli_put_verify_cells(lab_table *table, const lab_verify_result *result) {
    lab_table_cell(table, "%s", *result->kernel ? result->kernel : "-");
    if (result->outcome == LAB_REFUSED) {
        lab_table_cell(table, "-");
        lab_table_cell(table, "-");
        return;
    }
    const lab_errors *worst = lab_worst_error(result);
    lab_table_cell(table, "%.1e", worst->kernel);
    const double percent = 100.0 * lab_error_share(worst);
    if (percent < 1000.0)
        lab_table_cell(table, "%.0f %%", percent);
    else
        lab_table_cell(table, ">999 %%");
}

void cli_put_failure(const cli_session *session, size_t subject_index, const lab_spec *spec,
                     const lab_verify_result *result) {
    if (result->outcome == LAB_PASS)
        return;
    char line[LAB_SPEC_MAX], flags[768];
    lab_spec_print(spec, line, sizeof line);
    cli_format_flags(session, subject_index, flags, sizeof flags);
    fputc('\n', session->text);
    lab_put_verdict(session->text, cli_outcome_text(result));
    fprintf(session->text, " %s\n  %s\n", line, result->message);
    const char *amx_f32 = getenv("ATTEST_AMX_F32"); /* affects the choice of kernels, and has no
                                                     * flag */
    const bool set = amx_f32 && *amx_f32;
    fprintf(session->text, "  again: %s%s%s%s verify %s %s", set ? "ATTEST_AMX_F32=" : "",
            set ? amx_f32 : "", set ? " " : "", session->options->program, line, flags);
    if (result->rows_checked < result->rows_total) /* otherwise no rows are drawn */
        fprintf(session->text, " --rows-seed %" PRIu64, result->rows_seed);
    fputc('\n', session->text);
}
