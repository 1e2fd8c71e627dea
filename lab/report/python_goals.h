/* python_goals.h: goals of what Python's samples show, and the summaries that they are held
 * against; for call_costs.c and training_steps.c. */
#ifndef LAB_PYTHON_GOALS_H
#define LAB_PYTHON_GOALS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lab/base/json_node.h"
#include "lab/base/message.h"
#include "lab/statistics/stats.h"

typedef struct lab_python_judge {
    FILE *text;
    lab_message *why;
    json_t *goals; /* one object per goal that was asked about */
    bool holds;    /* all of them so far */
} lab_python_judge;

/* Whether a number is at most the wanted one; recorded either way. */
bool lab_python_at_most(lab_python_judge *j, const char *goal, double found, double wanted,
                        const char *at);

/* "holds" or "MISSED". */
const char *lab_python_word(bool holds);

/* Summarise the samples of a member. */
bool lab_python_summary(lab_summary *out, const lab_node *object, const char *name,
                        lab_message *why);

#endif
