/* test_error.c: status names, the record of the last failure, the version. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tests/support/check.h"

static void test_status_name__each__its_own(void **state) {
    (void)state;
    static const char *const names[] = {"ATT_OK",         "ATT_E_ARG",         "ATT_E_STRUCT",
                                        "ATT_E_OVERFLOW", "ATT_E_UNSUPPORTED", "ATT_E_ALIAS",
                                        "ATT_E_DATA",     "ATT_E_WORKSPACE",   "ATT_E_MEMORY",
                                        "ATT_E_DEVICE",   "ATT_E_SYSTEM",      "ATT_E_CUDA"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        assert_string_equal(att_status_name((att_status)i), names[i]);
}

static void test_status_name__unknown__not_null(void **state) {
    (void)state;
    assert_non_null(att_status_name((att_status)1234));
    assert_non_null(att_status_name((att_status)-1));
}

static void *read_status(void *out) {
    *(att_status *)out = att_last_error()->status;
    return NULL;
}

static void test_last_error__another_thread__has_its_own(void **state) {
    (void)state;
    assert_int_equal(att_fail(ATT_E_ARG, "field", "text %d", 7), ATT_E_ARG);
    att_status other = ATT_E_SYSTEM;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_status, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(other, ATT_OK);
    assert_int_equal(att_last_error()->status, ATT_E_ARG);
    assert_string_equal(att_last_error()->field, "field");
    assert_string_equal(att_last_error()->text, "text 7");
    assert_int_equal(att_last_error()->cuda_code, 0);
}

static void test_fail__long_text__cut_and_terminated(void **state) {
    (void)state;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    att_fail(ATT_E_DATA, text, "%s", text);
    assert_int_equal(strlen(att_last_error()->text), sizeof att_last_error()->text - 1);
    assert_int_equal(strlen(att_last_error()->field), sizeof att_last_error()->field - 1);
}

static void test_version__header_and_library__agree(void **state) {
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", ATT_VERSION_MAJOR, ATT_VERSION_MINOR,
             ATT_VERSION_PATCH);
    assert_string_equal(att_version(), text);
    assert_string_equal(att_version(), ATT_VERSION_STRING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_name__each__its_own),
        cmocka_unit_test(test_status_name__unknown__not_null),
        cmocka_unit_test(test_last_error__another_thread__has_its_own),
        cmocka_unit_test(test_fail__long_text__cut_and_terminated),
        cmocka_unit_test(test_version__header_and_library__agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
