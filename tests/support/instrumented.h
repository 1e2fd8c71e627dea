/* instrumented.h: whether accesses are checked or counted here, or instruction sets are
 * emulated. If so, fewer problems of a kind suffice: the plain build computes them all. */
#ifndef TESTS_SUPPORT_INSTRUMENTED_H
#define TESTS_SUPPORT_INSTRUMENTED_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool is_instrumented(void) {
    return getenv("ATTEST_INSTRUMENTED") != NULL;
}

#endif
