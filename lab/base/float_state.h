/* float_state.h: the rules by which this thread rounds: direction, what becomes of subnormal numbers, which exceptions trap.
 *
 * What is called may change them, and what is computed afterwards then differs: the bar that an answer is held to among it. Cheap enough to
 * stand around a call that is timed. */
#ifndef LAB_FLOAT_STATE_H
#define LAB_FLOAT_STATE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lab_float_state {
    uint64_t vector; /* MXCSR, FPCR */
    uint64_t scalar; /* the x87 control word; elsewhere the direction of rounding */
} lab_float_state;

/* The rules as they are now; flags of exceptions that came to pass are no rules. */
lab_float_state lab_float_save(void);

/* Put them back; whether they were still the same. */
bool lab_float_restore(lab_float_state kept);

/* As a C program finds them when it starts. */
void lab_float_default(void);

#endif
