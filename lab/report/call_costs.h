/* call_costs.h: what a call from Python costs the host, from the samples of `python -m attest.bench --groups calls`.
 *
 * On a CPU the cost of the way is asked for, not of what else the machine does: the least of many blocks counts, of a call from
 * Python and of the same call from C. On a GPU medians count: what attention() takes until it returns, less the run itself from C and
 * the making of the output, is the extension's own; and an eager call of the drop-in is held against PyTorch's function. */
#ifndef LAB_CALL_COSTS_H
#define LAB_CALL_COSTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lab/base/message.h"

/* Whether the file at `path` is of such samples: attest-python-calls-1, which had numbers made in Python for a CPU, or -2.
 * *document is then the file's, to be freed. */
bool lab_call_costs_open(json_t **document, const char *path);

/* Print the tables and their verdicts; *goals becomes a new array of what was wanted and found. `name` is for messages. */
bool lab_call_costs_judge(FILE *text, json_t *document, const char *name, json_t **goals,
                          bool *holds, lab_message *why);

#endif
