/* report.h: verification results as text: cells, failures with the command that shows them, tallies. */
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
    size_t skipped;      /* not the memory for them */
    size_t declined;     /* by a peer, which need not serve everything */
    cli_exit of_refused; /* the exit code of the first refusal's status */
} cli_tally;

void cli_tally_add(cli_tally *tally, const lab_subject *subject,
                   const lab_verify_result *result);

/* A failure outweighs a refusal; problems that a peer declines or that are skipped for want of memory weigh only where nothing ran. */
cli_exit cli_tally_exit(const cli_tally *tally);
void cli_put_tally(const cli_session *session, const cli_tally *tally);

/* "pass", "FAIL", "refused", "no memory". */
const char *cli_outcome_text(const lab_verify_result *result);

/* Three cells: kernel, error and its share of the bar, of O or LSE, whichever has the larger. */
void cli_put_verify_cells(lab_table *table, const lab_verify_result *result);

/* For anything but a pass: what happened, and the command that makes it happen again. */
void cli_put_failure(const cli_session *session, size_t subject_index, const lab_spec *spec,
                     const lab_verify_result *result);

#endif
