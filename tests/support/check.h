/* check.h: cmocka with the headers it needs, and the assertions the tests share. */
#ifndef TESTS_SUPPORT_CHECK_H
#define TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attest.h"

/* `call` must return ATT_OK; otherwise the library's message is shown. */
#define assert_ok(call)                                                                        \
    do {                                                                                       \
        const att_status assert_ok_status = (call);                                            \
        if (assert_ok_status != ATT_OK)                                                        \
            fail_msg("%s: %s (%s)", #call, att_status_name(assert_ok_status),                  \
                     att_last_error()->text);                                                  \
    } while (0)

/* `call` must fail with `status`, name `field`, and explain why in a text that contains
 * `word`. */
#define assert_fails(call, status, field, word)                                                \
    check_failure(#call, (call), (status), (field), (word), __FILE__, __LINE__)

void check_failure(const char *call, att_status got, att_status status, const char *field,
                   const char *word, const char *file, int line);

/* |got - want| <= tolerance; NaN is near only NaN, an infinity near only itself. */
#define assert_near(got, want, tolerance)                                                      \
    check_near((got), (want), (tolerance), __FILE__, __LINE__)

void check_near(double got, double want, double tolerance, const char *file, int line);

#endif
