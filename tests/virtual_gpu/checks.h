/* checks.h: a check that fails ends the launch and says who did what where, with which seed, and how to see it again. */
#ifndef ATT_VGPU_CHECKS_H
#define ATT_VGPU_CHECKS_H

#include <stdbool.h>

/* What the check is about: the first words of a report. */
typedef enum vgpu_check {
    CHECK_IN_FLIGHT,   /* touched while a copy writes it */
    CHECK_SOURCE,      /* written while a copy or a product reads it */
    CHECK_ACCUMULATOR, /* of a product under way */
    CHECK_PROXY,       /* no fence between threads and the copy engine or tensor cores */
    CHECK_COUNT,       /* arrivals and bytes of a barrier */
    CHECK_BOUNDS,
    CHECK_ALIGNMENT,
    CHECK_UNINITIALISED,
    CHECK_DEADLOCK,
    CHECK_RACE,
    CHECK_CONVERGENCE, /* lanes of a warp that must be together */
    CHECK_INSTRUCTION, /* that the virtual GPU does not know */
    CHECK_LIFETIME,    /* something ends while something of it is under way */
    CHECKS
} vgpu_check;

/* One word or two: "race", "in flight". */
const char *check_name(vgpu_check check);

/* Ends the launch; of several failures the first is reported. */
_Noreturn void vgpu_fail(vgpu_check check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print it: the check, its text, lane and place, schedule, and the command that repeats it. */
void report_print(void);
bool report_failed(void);
void report_clear(void);

/* Nobody can go on: say who waits for what, and fail. */
_Noreturn void report_deadlock(void);

#endif
