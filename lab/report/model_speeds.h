/* model_speeds.h: speeds of whole models with attest and with transformers' own
 * implementations, from the samples of `python -m attest.bench --groups models`.
 *
 * For every model, cell (prefill, generation) and rival: tokens per second of both, and the
 * speed relative to the rival's with its interval and a verdict. The goals are that attest gave
 * the right answer in every cell (an implementation with a wrong one has no samples), and that
 * it passed no attention on to PyTorch. */
#ifndef LAB_MODEL_SPEEDS_H
#define LAB_MODEL_SPEEDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lab/base/message.h"

/* Whether documents of the schema have such samples: attest-python-models-1. */
bool lab_model_speeds_schema(const char *schema);

/* Print the table; *goals becomes a new array of wanted and measured numbers. `name` is used in
 * messages. */
bool lab_model_speeds_judge(FILE *text, json_t *document, const char *name, json_t **goals,
                            bool *holds, lab_message *why);

#endif
