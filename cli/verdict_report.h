/* verdict_report.h: comparisons in words: a table of verdicts and what they come to. */
#ifndef CLI_VERDICT_REPORT_H
#define CLI_VERDICT_REPORT_H

#include <stdio.h>

#include "cli/options.h"
#include "lab/measure/comparison.h"

/* The table and its sum: verdicts counted, the mean ratio, what is in one file only. */
void cli_put_comparison(FILE *text, const lab_comparison *comparison);

/* A row a pair. */
void cli_put_comparison_csv(FILE *csv, const lab_comparison *comparison);

/* "+3.1 % [+2.9, +3.4]" into buf. */
void cli_format_effect(const lab_verdict *verdict, char *buf, size_t n);

/* Read a result file by the name that --save, --baseline and compare take: NAME is baselines/NAME.json,
 * unless it has a / or ends in .json; NAME.json is there too where no such file is here. Complains. */
cli_exit cli_read_results(lab_results *out, const cli_options *o, const char *name);

enum { CLI_PATH_MAX = 4096 };

/* The path of that name. False, with a complaint, where it is too long. */
bool cli_baseline_path(const cli_options *o, const char *name, char path[CLI_PATH_MAX]);

#endif
