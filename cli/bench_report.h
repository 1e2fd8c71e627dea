/* bench_report.h: verifies and times the problems of a session, and writes a table, a CSV and a
 * document. */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include "cli/report.h"
#include "cli/session.h"
#include "lab/measure/bench.h"

/* Bench every problem of the session on every subject, and finish the session: the table,
 * verdicts, failures and the tally go to session->text, the documents where the options say. */
cli_exit cli_bench_session(cli_session *session);

/* Convert the command-line options for the laboratory. */
lab_bench_options cli_bench_options(const cli_options *o);

/* Open the file of --save; does nothing if it was not given. Prints errors. */
bool cli_open_save(cli_sink *save, const cli_options *o);

/* Write `document` (consumed) where --save and --json say; returns `outcome`, or the error. */
cli_exit cli_finish_bench(cli_session *session, cli_sink *save, json_t *document,
                          cli_exit outcome);

#endif
