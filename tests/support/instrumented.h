/* instrumented.h: is every access checked or counted here, and are instruction sets emulated? Then fewer problems of a kind will do:
 * the plain build computes them all. */
#ifndef TESTS_SUPPORT_INSTRUMENTED_H
#define TESTS_SUPPORT_INSTRUMENTED_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool is_instrumented(void) {
    return getenv("ATTEST_INSTRUMENTED") != NULL;
}

#endif
