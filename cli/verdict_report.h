/* verdict_report.h: comparisons as text: a table of verdicts and its summary. */
#ifndef CLI_VERDICT_REPORT_H
#define CLI_VERDICT_REPORT_H

#include <stdio.h>

#include "cli/options.h"
#include "lab/measure/comparison.h"

/* The table and its summary: counts of verdicts, the mean ratio, problems in one file only. */
void cli_put_comparison(FILE *text, const lab_comparison *comparison);

/* One row per pair. */
void cli_put_comparison_csv(FILE *csv, const lab_comparison *comparison);

/* "+3.1 % [+2.9, +3.4]" into buf. */
void cli_format_effect(const lab_verdict *verdict, char *buf, size_t n);

/* Read a result file by a name as accepted by --save, --baseline and compare: NAME is
 * baselines/NAME.json, unless it has a / or ends in .json; NAME.json is looked up there too if
 * it does not exist here. Prints errors. */
cli_exit cli_read_results(lab_results *out, const cli_options *o, const char *name);

enum { CLI_PATH_MAX = 4096 };

/* The path for that name. False, with an error message, if it is too long. */
bool cli_baseline_path(const cli_options *o, const char *name, char path[CLI_PATH_MAX]);

#endif
