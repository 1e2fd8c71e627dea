/* call_costs.h: the host cost of a call from Python, from the samples of `python -m
 * attest.bench --groups calls`.
 *
 * On a CPU the cost of the call path matters, not what else the machine does: the fastest of
 * many blocks counts, for a call from Python and for the same call from C. On a GPU medians
 * count: the time until attention() returns, less the run from C and the allocation of the
 * output, is the extension's own cost; and an eager call of the drop-in is compared with
 * PyTorch's function. */
#ifndef LAB_CALL_COSTS_H
#define LAB_CALL_COSTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lab/base/message.h"

/* Whether documents of the schema have such samples: attest-python-calls-1, which had numbers
 * computed in Python for a CPU, or -2. */
bool lab_call_costs_schema(const char *schema);

/* Print the tables and their verdicts; *goals becomes a new array of wanted and measured
 * numbers. `name` is used in messages. */
bool lab_call_costs_judge(FILE *text, json_t *document, const char *name, json_t **goals,
                          bool *holds, lab_message *why);

#endif
