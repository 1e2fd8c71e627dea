/* float_state.h: the floating-point rules of this thread: rounding direction, treatment of
 * subnormal numbers, which exceptions trap.
 *
 * A function that we call may change them. Later arithmetic then differs, including that of the
 * bar that an answer is checked against. Cheap enough to use around a timed call. */
#ifndef LAB_FLOAT_STATE_H
#define LAB_FLOAT_STATE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lab_float_state {
    uint64_t vector; /* MXCSR, FPCR */
    uint64_t scalar; /* the x87 control word; on other processors the rounding direction */
} lab_float_state;

/* The current rules, without the flags of exceptions that have occurred. */
lab_float_state lab_float_save(void);

/* Restore them; returns whether they were unchanged. */
bool lab_float_restore(lab_float_state kept);

/* Set the rules that a C program starts with. */
void lab_float_default(void);

#endif
