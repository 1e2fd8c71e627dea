/* test_markup.c: text that is dangerous in a page, a Markdown table or a terminal is made
 * harmless. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/base/markup.h"

static char *written;
static size_t written_length;

static FILE *begin(void) {
    free(written);
    written = NULL;
    return open_memstream(&written, &written_length);
}

static const char *escaped(const char *text) {
    FILE *out = begin();
    lab_markup_text(out, text);
    fclose(out);
    return written;
}

static const char *code_span(const char *text) {
    FILE *out = begin();
    lab_markup_code(out, text);
    fclose(out);
    return written;
}

static void test_text__markup_characters__become_entities(void **state) {
    (void)state;
    assert_string_equal(
        escaped("</script><img src='x' onerror=\"a&b\">"),
        "&lt;/script&gt;&lt;img src=&#39;x&#39; onerror=&quot;a&amp;b&quot;&gt;");
    assert_string_equal(escaped(""), "");
    assert_string_equal(escaped(NULL), "");
    assert_string_equal(escaped("µ – 位"), "µ – 位");
}

#define BAD "\xef\xbf\xbd"

static void test_text__what_xml_cannot_hold__is_replaced(void **state) {
    (void)state;
    assert_string_equal(escaped("a\x01"
                                "b\x1b[31mc\x7f"),
                        "a" BAD "b" BAD "[31mc" BAD);
    assert_string_equal(escaped("a\nb\tc\rd"), "a b c" BAD "d");
    assert_string_equal(escaped("\xc2\x9b"), BAD);     /* a terminal's CSI in one character */
    assert_string_equal(escaped("\xef\xbf\xbe"), BAD); /* U+FFFE */
    assert_string_equal(escaped("\xed\xa0\x80x"), BAD "x"); /* half a surrogate pair */
    assert_string_equal(escaped("\xe2\x80\xae"
                                "evil"),
                        BAD "evil"); /* right-to-left override */
}

static void test_text__broken_utf8__is_replaced_byte_by_byte(void **state) {
    (void)state;
    assert_string_equal(escaped("\xff<"), BAD "&lt;");
    assert_string_equal(escaped("\xc0\xbc"), BAD BAD); /* an overlong < */
    assert_string_equal(escaped("\xe2\x82"), BAD BAD); /* truncated */
    assert_string_equal(escaped("\xf5\x80\x80\x80"), BAD BAD BAD BAD);
}

static void test_markup__every_directive__is_escaped_or_finite(void **state) {
    (void)state;
    FILE *out = begin();
    lab_markup(out,
               "<a b=\"%s\" c=\"%.2f\" d=\"%zu\" e=\"%d\" f=\"%+.1f\" g=\"%.3g\">100 %%</a>",
               "\"><", (double)NAN, (size_t)7, -3, 2.25, 1e9);
    fclose(out);
    assert_string_equal(written,
                        "<a b=\"&quot;&gt;&lt;\" c=\"0.00\" d=\"7\" e=\"-3\" f=\"+2.2\" "
                        "g=\"1e+09\">100 %</a>");
}

static void test_code__table_and_span_marks__do_not_end_it(void **state) {
    (void)state;
    assert_string_equal(code_span("a|b`c\nd"), "`a\\|b'c d`");
    assert_string_equal(code_span("<img src=x>@user"), "`<img src=x>@user`");
    assert_string_equal(code_span("\x1b[2J"), "`" BAD "[2J`");
    assert_string_equal(code_span(""), "");
}

static void test_plain__control_codes__cannot_reach_a_terminal(void **state) {
    (void)state;
    char buf[32];
    assert_string_equal(lab_plain_text(buf, sizeof buf, "a\x1b[31mb\xc2\x9b", 20), "a?[31mb?");
    assert_string_equal(lab_plain_text(buf, sizeof buf, "abcdef", 4), "abc~");
    assert_string_equal(lab_plain_text(buf, sizeof buf, "abcd", 4), "abcd");
    assert_string_equal(lab_plain_text(buf, sizeof buf, "µµµµ", 3), "µµ~");
    assert_string_equal(lab_plain_text(buf, sizeof buf, "abc", 0), "");
    char small[4];
    assert_string_equal(lab_plain_text(small, sizeof small, "abcdef", 6), "ab");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text__markup_characters__become_entities),
        cmocka_unit_test(test_text__what_xml_cannot_hold__is_replaced),
        cmocka_unit_test(test_text__broken_utf8__is_replaced_byte_by_byte),
        cmocka_unit_test(test_markup__every_directive__is_escaped_or_finite),
        cmocka_unit_test(test_code__table_and_span_marks__do_not_end_it),
        cmocka_unit_test(test_plain__control_codes__cannot_reach_a_terminal),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(written);
    return failed;
}
