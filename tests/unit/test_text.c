/* test_text.c: tables as wide as their cells, suggestions only if they help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lab/base/suggest.h"
#include "lab/base/table.h"

static void test_table__cells_of_any_width__line_up(void **state) {
    (void)state;
    static const lab_table_column columns[] = {
        {"name", LAB_TABLE_LEFT}, {"n", LAB_TABLE_RIGHT}, {"last", LAB_TABLE_LEFT}};
    lab_table *table = lab_table_create(columns, 3);
    lab_table_cell(table, "%s", "long name");
    lab_table_cell(table, "%d", 7);
    lab_table_cell(table, "x");
    lab_table_cell(table, "µ");
    lab_table_cell(table, "%d", 1234);
    lab_table_end_row(table);
    lab_table_end_row(table);

    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    lab_table_print(table, stream);
    fclose(stream);
    assert_string_equal(text, "name          n  last\n"
                              "---------  ----  ----\n"
                              "long name     7  x\n"
                              "µ          1234\n");
    free(text);
    lab_table_destroy(table);
}

/* The text of a table of two columns, the second 20 wide, in at most `columns` columns. */
static char *print_within(size_t columns) {
    static const lab_table_column titles[] = {{"name", LAB_TABLE_LEFT},
                                              {"what it is", LAB_TABLE_REMARK}};
    lab_table *table = lab_table_create(titles, 2);
    lab_table_cell(table, "a");
    lab_table_cell(table, "µ2345678901234567890");
    lab_table_cell(table, "b");
    lab_table_cell(table, "short");
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    lab_table_print_within(table, stream, columns);
    fclose(stream);
    lab_table_destroy(table);
    return text;
}

static void test_table__wider_than_terminal__last_column_is_cut(void **state) {
    (void)state;
    static const struct {
        size_t columns;
        const char *text;
    } cases[] = {
        {0, "name  what it is\n----  --------------------\n"
            "a     µ2345678901234567890\nb     short\n"},
        {26, "name  what it is\n----  --------------------\n"
             "a     µ2345678901234567890\nb     short\n"},
        {25, "name  what it is\n----  -------------------\n"
             "a     µ23456789012345678…\nb     short\n"},
        {18, "name  what it is\n----  ------------\na     µ2345678901…\nb     short\n"},
        {17, "name\n----\na\nb\n"}, /* too little would remain */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = print_within(cases[i].columns);
        assert_string_equal(text, cases[i].text);
        free(text);
    }
}

/* A table of a problem, a number and a verdict, in at most `columns` columns. */
static char *print_verdicts(size_t columns) {
    static const lab_table_column titles[] = {
        {"problem", LAB_TABLE_LEFT}, {"time", LAB_TABLE_RIGHT}, {"verdict", LAB_TABLE_VERDICT}};
    lab_table *table = lab_table_create(titles, 3);
    lab_table_cell(table, "b1h4s128d64,causal,µ_softcap");
    lab_table_cell(table, "1.25 us");
    lab_table_cell(table, "SLOWER");
    for (int blank = 0; blank < 2; blank++)
        lab_table_cell(table, "%s", "");
    lab_table_cell(table, "SAME");
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    lab_table_print_within(table, stream, columns);
    fclose(stream);
    lab_table_destroy(table);
    return text;
}

static void test_table__wider_than_terminal__left_column_wraps(void **state) {
    (void)state;
    char *text = print_verdicts(40);
    assert_string_equal(text, "problem                    time  verdict\n"
                              "----------------------  -------  -------\n"
                              "b1h4s128d64,causal,µ_   1.25 us  SLOWER\n"
                              "softcap\n"
                              "                                 SAME\n");
    free(text);
}

static void test_table__much_wider_than_terminal__row_takes_lines(void **state) {
    (void)state;
    char *text = print_verdicts(31);
    assert_string_equal(text, "problem\n"
                              "       time  verdict\n"
                              "-------------------------------\n"
                              "b1h4s128d64,causal,µ_\n"
                              "softcap\n"
                              "    1.25 us  SLOWER\n"
                              "             SAME\n");
    free(text);
}

static void test_table__null__is_taken(void **state) {
    (void)state;
    lab_table_cell(NULL, "x");
    lab_table_end_row(NULL);
    lab_table_print(NULL, stdout);
    lab_table_destroy(NULL);
}

static void test_text_width__utf8__counts_characters(void **state) {
    (void)state;
    assert_int_equal(lab_text_width(""), 0);
    assert_int_equal(lab_text_width("abc"), 3);
    assert_int_equal(lab_text_width("µ²→"), 3);
}

static const char *nearest(const char *misspelt) {
    static const char *const known[] = {"seed", "seconds", "causal", "b"};
    lab_suggestion best = {0};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        lab_suggest(&best, misspelt, known[i]);
    return best.word ? best.word : "";
}

static void test_suggest__near__is_found(void **state) {
    (void)state;
    assert_string_equal(nearest("sede"), "seed"); /* two neighbours swapped */
    assert_string_equal(nearest("cuasal"), "causal");
    assert_string_equal(nearest("second"), "seconds"); /* one missing */
    assert_string_equal(nearest("seedd"), "seed");     /* one too many */
}

static void test_suggest__far_or_long__is_not(void **state) {
    (void)state;
    assert_string_equal(nearest("xyzzy"), "");
    assert_string_equal(nearest(""), "");
    assert_string_equal(nearest("q"), ""); /* all of it would have to change */
    char endless[5000];
    memset(endless, 's', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_string_equal(nearest(endless), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table__cells_of_any_width__line_up),
        cmocka_unit_test(test_table__wider_than_terminal__last_column_is_cut),
        cmocka_unit_test(test_table__wider_than_terminal__left_column_wraps),
        cmocka_unit_test(test_table__much_wider_than_terminal__row_takes_lines),
        cmocka_unit_test(test_table__null__is_taken),
        cmocka_unit_test(test_text_width__utf8__counts_characters),
        cmocka_unit_test(test_suggest__near__is_found),
        cmocka_unit_test(test_suggest__far_or_long__is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
