/* test_clean_text.c: control codes do not get through messages, cells, documents and
 * streams. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/clean_text.h"
#include "lab/base/json_clean.h"
#include "lab/base/message.h"
#include "lab/base/table.h"
#include "tests/support/check.h"

/* A terminal title, a colour, a C1 introducer, a mark that turns the direction, a byte that is
 * not UTF-8. */
#define EVIL    "\x1b]0;x\a\x1b[31m\xc2\x9b\xe2\x80\xae\xff"
#define CLEANED "?]0;x??[31m???"

static void test_line__control_codes__replaced(void **state) {
    (void)state;
    char text[] = "a" EVIL "b\nc\td\r\x7f µ";
    assert_string_equal(lab_clean_line(text), "a" CLEANED "b c d?? µ");
    char plain[] = "plain µ × text";
    assert_string_equal(lab_clean_line(plain), "plain µ × text");
    char cut[] = "half \xe2\x80";
    assert_string_equal(lab_clean_line(cut), "half ??");
    char empty[] = "";
    assert_string_equal(lab_clean_line(empty), "");
}

static void test_message__text_of_others__is_one_clean_line(void **state) {
    (void)state;
    lab_message why;
    assert_false(lab_fail(&why, "a peer says %s", EVIL "\n1 passed"));
    assert_string_equal(why.text, "a peer says " CLEANED " 1 passed");
}

static void test_table__cells__are_clean(void **state) {
    (void)state;
    static const lab_table_column columns[] = {{"n", LAB_TABLE_LEFT}};
    lab_table *table = lab_table_create(columns, 1);
    lab_table_cell(table, "%s", EVIL "\nx");
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    lab_table_print(table, stream);
    fclose(stream);
    assert_string_equal(text, "n\n----------------\n" CLEANED " x\n");
    free(text);
    lab_table_destroy(table);
}

static void test_document__strings_at_any_depth__are_clean(void **state) {
    (void)state;
    json_t *document =
        json_pack("{s:s, s:[s, {s:s}]}", "a", "\x1b[2J", "b", "\xc2\x9b", "c", "plain");
    lab_json_clean(document);
    char *text = json_dumps(document, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"a\":\"?[2J\",\"b\":[\"?\",{\"c\":\"plain\"}]}");
    free(text);
    json_decref(document);
}

/* However the bytes are split on their way. */
static void test_stream__any_pieces__cleaned_alike(void **state) {
    (void)state;
    static const char in[] = "µ\n" EVIL "\t€ end\n\xe2\x80";
    for (size_t piece = 1; piece < sizeof in; piece++) {
        char *text = NULL;
        size_t length;
        FILE *under = open_memstream(&text, &length);
        FILE *stream = lab_clean_stream(under);
        assert_non_null(stream);
        for (size_t at = 0; at < sizeof in - 1; at += piece) {
            const size_t left = sizeof in - 1 - at;
            fwrite(in + at, 1, left < piece ? left : piece, stream);
            fflush(stream);
        }
        assert_int_equal(fclose(stream), 0);
        fclose(under);
        assert_string_equal(text, "µ\n" CLEANED "\t€ end\n??");
        free(text);
    }
}

static void test_stream__full_device__fails(void **state) {
    (void)state;
    FILE *under = fopen("/dev/full", "w");
    assert_non_null(under);
    FILE *stream = lab_clean_stream(under);
    fputs("text", stream);
    assert_int_not_equal(fflush(stream), 0);
    assert_true(ferror(under));
    fclose(stream);
    fclose(under);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line__control_codes__replaced),
        cmocka_unit_test(test_message__text_of_others__is_one_clean_line),
        cmocka_unit_test(test_table__cells__are_clean),
        cmocka_unit_test(test_document__strings_at_any_depth__are_clean),
        cmocka_unit_test(test_stream__any_pieces__cleaned_alike),
        cmocka_unit_test(test_stream__full_device__fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
