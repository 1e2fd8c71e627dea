/* shuffle.h: the permutation tests behind a verdict, on logarithms of times. */
#ifndef LAB_SHUFFLE_H
#define LAB_SHUFFLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/base/message.h"
#include "lab/base/random.h"

/* A number and the unit (sample or process, from 0) that it moves with. */
typedef struct lab_member {
    double value;
    uint32_t unit;
    bool of_b; /* for two groups only */
} lab_member;

/* The fraction of shuffles whose effect is at least as far from zero, at least as large, and at
 * most as small as the true one; the true one is counted among them. */
typedef struct lab_tails {
    double both, upper, lower;
} lab_tails;

/* Two groups: units change sides; the number on each side stays. The effect is median(B) -
 * median(A). `members` is sorted on return. */
bool lab_shuffle_groups(lab_tails *out, lab_member *members, size_t count, size_t units,
                        lab_random *random, lab_message *why);

/* Differences between partners: units change sign. The statistic is the number above zero minus
 * the number below: a test of the median that a few outliers cannot sway. */
bool lab_shuffle_signs(lab_tails *out, lab_member *members, size_t count, size_t units,
                       lab_random *random, lab_message *why);

#endif
