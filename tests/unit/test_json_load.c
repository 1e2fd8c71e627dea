/* test_json_load.c: untrusted documents: every error names the document. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/base/json_load.h"
#include "tests/support/check.h"

static lab_message why;
static char path[] = "/tmp/attest-json-XXXXXX";

static int make_file(void **state) {
    (void)state;
    const int fd = mkstemp(path);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : -1;
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static void put(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_refusal(const char *at, const char *word) {
    char begin[128];
    snprintf(begin, sizeof begin, "%s%s", path, at);
    assert_null(lab_json_load(path, &why));
    if (strncmp(why.text, begin, strlen(begin)) != 0 || !strstr(why.text, word))
        fail_msg("'%s' does not begin with '%s' and say '%s'", why.text, begin, word);
}

static void test_load__good_documents__come_cleaned(void **state) {
    (void)state;
    put("{\"name\": \"a\\u001b[2Jb\"}");
    json_t *document = lab_json_load(path, &why);
    assert_string_equal(json_string_value(json_object_get(document, "name")), "a?[2Jb");
    json_decref(document);
}

static void test_load__bad_documents__are_refused_with_file_and_line(void **state) {
    (void)state;
    put("");
    expect_refusal(":1: ", "");
    put("{\"a\": 1,\n \"b\": }");
    expect_refusal(":2: ", "unexpected token");
    put("{\"a\": 1,\n\n \"a\": 2}");
    expect_refusal(":3: ", "duplicate");
    put("{}\n{}");
    expect_refusal(":2: ", "end of file expected");
}

static void test_load__what_is_no_file__is_refused(void **state) {
    (void)state;
    assert_null(lab_json_load("/nonexistent/x.json", &why));
    assert_string_equal(why.text, "/nonexistent/x.json: No such file or directory");
    assert_null(lab_json_load("/tmp", &why));
    assert_string_equal(why.text, "/tmp: Is a directory");
}

/* A file with a hole takes no room on the disk. */
static void test_load__huge_files__are_refused_before_they_are_parsed(void **state) {
    (void)state;
    put("{}");
    assert_int_equal(truncate(path, (off_t)LAB_JSON_BYTES_MOST + 1), 0);
    expect_refusal(": ", "is larger than 256 MiB");
    put("{}");
    json_t *document = lab_json_load(path, &why);
    assert_non_null(document);
    json_decref(document);
}

static void test_load__long_documents__are_read_whole(void **state) {
    (void)state;
    enum { NUMBERS = 100000 };
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("[0", file);
    for (int i = 1; i < NUMBERS; i++)
        fprintf(file, ", %d", i);
    fputs("]", file);
    fclose(file);
    json_t *document = lab_json_load(path, &why);
    assert_int_equal(json_array_size(document), NUMBERS);
    assert_int_equal(json_integer_value(json_array_get(document, NUMBERS - 1)), NUMBERS - 1);
    json_decref(document);
}

static void test_read__pipe__is_a_file_too(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "{\"a\": 1}", 8), 8);
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    json_t *document = lab_json_read(file, "a pipe", &why);
    assert_int_equal(json_integer_value(json_object_get(document, "a")), 1);
    json_decref(document);
    assert_null(lab_json_read(file, "a pipe", &why));
    assert_true(strncmp(why.text, "a pipe:1: ", 10) == 0);
    fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load__good_documents__come_cleaned),
        cmocka_unit_test(test_load__bad_documents__are_refused_with_file_and_line),
        cmocka_unit_test(test_load__what_is_no_file__is_refused),
        cmocka_unit_test(test_load__huge_files__are_refused_before_they_are_parsed),
        cmocka_unit_test(test_load__long_documents__are_read_whole),
        cmocka_unit_test(test_read__pipe__is_a_file_too),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
