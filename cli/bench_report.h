/* bench_report.h: problems of a session verified, timed, and put in a table, a CSV and a document. */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include "cli/report.h"
#include "cli/session.h"
#include "lab/measure/bench.h"

/* Bench every problem of the session on every subject, and finish the session: the table, verdicts,
 * failures and the tally go to session->text, the documents where the options ask. */
cli_exit cli_bench_session(cli_session *session);

/* The options of the command line, as the laboratory takes them. */
lab_bench_options cli_bench_options(const cli_options *o);

/* Open the file of --save; nothing where there is none. Complains. */
bool cli_open_save(cli_sink *save, const cli_options *o);

/* Write `document` (consumed) where --save and --json ask; returns `outcome`, or what went wrong. */
cli_exit cli_finish_bench(cli_session *session, cli_sink *save, json_t *document,
                          cli_exit outcome);

#endif
