/* report.h: verification results as text: cells, failures with the command to reproduce them,
 * tallies. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stddef.h>

#include "cli/session.h"
#include "lab/base/table.h"
#include "lab/verify/verify.h"

/* Outcomes counted over a suite. */
typedef struct cli_tally {
    size_t passed, failed;
    size_t refused;      /* by the library */
    size_t skipped;      /* for lack of memory */
    size_t declined;     /* by a peer, which need not support everything */
    cli_exit of_refused; /* the exit code for the status of the first refusal */
} cli_tally;

void cli_tally_add(cli_tally *tally, const lab_subject *subject,
                   const lab_verify_result *result);

/* A failure takes precedence over a refusal; problems that a peer declines or that are skipped
 * for lack of memory count only if nothing ran. */
cli_exit cli_tally_exit(const cli_tally *tally);
void cli_put_tally(const cli_session *session, const cli_tally *tally);

/* "3 failed", in the colour of what that means. */
void cli_put_failed(FILE *text, size_t failed);

/* "pass", "FAIL", "refused", "no memory". */
const char *cli_outcome_text(const lab_verify_result *result);

/* Three cells: kernel, error and its fraction of the bar, for O or LSE, whichever is larger. */
void cli_put_verify_cells(lab_table *table, const lab_verify_result *result);

/* For anything but a pass: what happened, and the command to reproduce it. */
void cli_put_failure(const cli_session *session, size_t subject_index, const lab_spec *spec,
                     const lab_verify_result *result);

#endif
