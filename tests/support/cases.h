/* cases.h: run each test on every engine of the machine, with every dtype and both kernel
 * families. */
#ifndef TESTS_SUPPORT_CASES_H
#define TESTS_SUPPORT_CASES_H

#include "tests/support/check.h"
#include "tests/support/engines.h"

/* The parameters of a test; every test finds one in *state. */
typedef struct test_case {
    att_context *ctx;
    att_isa isa;
    att_dtype dtype;
    int64_t rows; /* query rows: 1 and 3 reach the decode kernels, 37 the tiled ones */
} test_case;

/* Run every test on every case; the case follows the test's name in the output. Returns the
 * number of failures. */
int cases_run(const struct CMUnitTest *tests, size_t count);

#endif
