/* checks.h: a failed check ends the launch and reports which lane did what and where, with the
 * seed, and how to reproduce it. */
#ifndef ATT_VGPU_CHECKS_H
#define ATT_VGPU_CHECKS_H

#include <stdbool.h>

/* The kind of check: the first words of a report. */
typedef enum vgpu_check {
    CHECK_IN_FLIGHT,   /* touched while a copy writes it */
    CHECK_SOURCE,      /* written while a copy or a product reads it */
    CHECK_ACCUMULATOR, /* accumulators of a product in flight */
    CHECK_PROXY,       /* missing fence between threads and the copy engine or tensor cores */
    CHECK_COUNT,       /* arrivals and bytes of a barrier */
    CHECK_BOUNDS,
    CHECK_ALIGNMENT,
    CHECK_UNINITIALISED,
    CHECK_DEADLOCK,
    CHECK_RACE,
    CHECK_CONVERGENCE, /* lanes of a warp that must be together */
    CHECK_INSTRUCTION, /* not supported by the virtual GPU */
    CHECK_LIFETIME,    /* something ends while a part of it is in flight */
    CHECKS
} vgpu_check;

/* One word or two: "race", "in flight". */
const char *check_name(vgpu_check check);

/* End the launch; of several failures the first is reported. */
_Noreturn void vgpu_fail(vgpu_check check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print the check, its text, lane and place, schedule, and the command that reproduces it. */
void report_print(void);
bool report_failed(void);
void report_clear(void);

/* No lane can continue: report who waits for what, and fail. */
_Noreturn void report_deadlock(void);

#endif
