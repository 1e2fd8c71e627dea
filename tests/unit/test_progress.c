/* test_progress.c: estimates, and lines if there is no terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/base/progress.h"

static void test_left__after_some_steps__is_in_the_unit_a_reader_wants(void **state) {
    (void)state;
    static const struct {
        double elapsed;
        size_t done, total;
        const char *text;
    } cases[] = {
        {1.0, 1, 100, ""},                 /* too early */
        {60.0, 0, 100, ""},                /* nothing is known */
        {60.0, 100, 100, ""},              /* nothing is left */
        {60.0, 101, 100, ""},              /* more than expected */
        {10.0, 1, 3, "about 20 s left"},   /* as long as the first, twice */
        {10.0, 99, 100, "about 1 s left"}, /* never 0 */
        {60.0, 10, 100, "about 9 min left"},
        {3600.0, 1, 3, "about 2.0 h left"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buf[LAB_LEFT_MAX];
        assert_string_equal(
            lab_progress_left(buf, cases[i].elapsed, cases[i].done, cases[i].total),
            cases[i].text);
    }
}

static void test_progress__in_a_pipe__is_silent_until_a_minute_has_passed(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    lab_progress bar;
    lab_progress_start(&bar, file, "verifying", 100);
    for (size_t i = 0; i < 50; i++)
        lab_progress_update(&bar, i, "b1h8s512d64");
    assert_int_equal(ftell(file), 0);
    bar.line_ns = 0; /* as if each had taken a minute */
    lab_progress_update(&bar, 50, "b1h8\ns512\033d64");
    lab_progress_update(&bar, 51, "next");
    lab_progress_end(&bar);
    lab_progress_update(&bar, 52, "after its end");
    rewind(file);
    char line[128];
    assert_non_null(fgets(line, sizeof line, file));
    assert_true(strncmp(line, "verifying: 50 of 100; b1h8", 26) == 0);
    assert_null(strchr(line, '\033'));
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "verifying: 51 of 100; next\n");
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left__after_some_steps__is_in_the_unit_a_reader_wants),
        cmocka_unit_test(test_progress__in_a_pipe__is_silent_until_a_minute_has_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
