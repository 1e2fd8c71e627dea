/* training_steps.h: training compared with PyTorch's attention, from the samples of `python -m
 * attest.bench --groups training`.
 *
 * For every model: tokens per second of a step from medians, and the losses of the first steps,
 * which must agree with those of PyTorch's attention within the bar that the file names for its
 * type; attest must have handled every call. For attention alone: wall time of forward and
 * backward, which on a GPU must be at most a fraction of PyTorch's. */
#ifndef LAB_TRAINING_STEPS_H
#define LAB_TRAINING_STEPS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lab/base/message.h"

/* Whether documents of the schema have such samples: attest-python-training-1. */
bool lab_training_steps_schema(const char *schema);

/* Print the tables and their verdicts; *goals becomes a new array of wanted and measured
 * numbers. `name` is used in messages. */
bool lab_training_steps_judge(FILE *text, json_t *document, const char *name, json_t **goals,
                              bool *holds, lab_message *why);

#endif
