/* candidate.h: a problem as a list of settings, which can be drawn at random and reduced. */
#ifndef TESTS_SUPPORT_CANDIDATE_H
#define TESTS_SUPPORT_CANDIDATE_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/problem/spec.h"

enum { SETTINGS_MAX = 40 };

/* One shape key or modifier of lab/problem/spec.h; value "" if it has none. */
typedef struct setting {
    char name[12];
    char value[36];
} setting;

typedef struct candidate {
    bool backward; /* a problem of gradients, not of attention */
    int count;
    setting list[SETTINGS_MAX];
} candidate;

/* Add or replace a setting; `format` may be "". */
void candidate_set(candidate *c, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void candidate_drop(candidate *c, int index);

/* The value of an integer setting, `otherwise` if it is not set. */
int64_t candidate_number(const candidate *c, const char *name, int64_t otherwise);

/* Make the spec; false if the settings contradict each other. */
bool candidate_build(const candidate *c, lab_spec *spec);

/* Draw a valid problem from the whole space: shapes, dtypes, masks, every feature, every layout
 * and kind of data. Its work is bounded, so that hundreds take seconds. */
void candidate_random(candidate *c, uint64_t *state);

/* The same for gradients, including those of bias, sinks and slopes. */
void candidate_random_backward(candidate *c, uint64_t *state);

#endif
