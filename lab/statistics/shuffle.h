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
    bool of_b; /* two groups only */
} lab_member;

/* Shares of shuffles whose effect is at least as far from zero, as large, and as small as the true one,
 * the true one counted among them. */
typedef struct lab_tails {
    double both, upper, lower;
} lab_tails;

/* Two groups: units change sides, as many on each as before. The effect is median(B) - median(A).
 * `members` is sorted on return. */
bool lab_shuffle_groups(lab_tails *out, lab_member *members, size_t count, size_t units,
                        lab_random *random, lab_message *why);

/* Differences between partners: units change sign. What is counted is how many are above zero less how
 * many are below: the test of the median that a few wild partners cannot sway. */
bool lab_shuffle_signs(lab_tails *out, lab_member *members, size_t count, size_t units,
                       lab_random *random, lab_message *why);

#endif
