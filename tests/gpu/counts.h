/* counts.h: counts of what holds and what does not, for the programs that run on a GPU machine, which has no test library. */
#ifndef ATT_TESTS_GPU_COUNTS_H
#define ATT_TESTS_GPU_COUNTS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "attest.h"

static int passed, failed, skipped;

/* What does not hold is named, with the library's last error. */
__attribute__((format(printf, 2, 3))) static bool check(bool holds, const char *format, ...) {
    passed += holds;
    failed += !holds;
    if (!holds) {
        va_list list;
        va_start(list, format);
        fputs("FAILED: ", stdout);
        vprintf(format, list);
        printf(" (last error: %s)\n", att_last_error()->text);
        va_end(list);
    }
    return holds;
}

/* What this machine cannot show. */
static inline void skip_test(const char *what) {
    skipped++;
    printf("skipped: %s\n", what);
}

/* The last line of such a program; its exit status. */
static int say_counts(void) {
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0;
}

#endif
