/* bench_report.h: problems of a session verified, timed, and put in a table, a CSV and a document. */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include "cli/session.h"

/* Bench every problem of the session on every context, and finish the session: the table, failures
 * and the tally go to session->text, the documents where the options ask. */
cli_exit cli_bench_session(cli_session *session);

#endif
