/* training_steps.h: training beside PyTorch's attention, from the samples of `python -m attest.bench --groups training`.
 *
 * Of every model: tokens per second of a step by medians, and the losses of the first steps, which must be those of PyTorch's attention
 * within the bar that the file names for its type; every call must have been served. Of the attention alone: wall time of forward and
 * backward, which on a GPU must be at most a share of PyTorch's. */
#ifndef LAB_TRAINING_STEPS_H
#define LAB_TRAINING_STEPS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lab/base/message.h"

/* Whether the file at `path` is of such samples: attest-python-training-1. *document is then the file's, to be freed. */
bool lab_training_steps_open(json_t **document, const char *path);

/* Print the tables and their verdicts; *goals becomes a new array of what was wanted and found. `name` is for messages. */
bool lab_training_steps_judge(FILE *text, json_t *document, const char *name, json_t **goals,
                              bool *holds, lab_message *why);

#endif
