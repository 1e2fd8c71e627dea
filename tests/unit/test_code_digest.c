/* test_code_digest.c: what changes the digest of a kernel, and what does not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/evidence/closure.h"
#include "lab/evidence/code_digest.h"
#include "lab/evidence/code_text.h"
#include "tests/support/check.h"

static void expect_normal(const char *text, const char *want) {
    char copy[512];
    snprintf(copy, sizeof copy, "%s", text);
    copy[lab_text_normalise(copy, strlen(copy))] = '\0';
    assert_string_equal(copy, want);
}

static void test_normalise__comments_and_layout__are_gone(void **state) {
    (void)state;
    expect_normal("int a; /* why */ int b; // and\nint c;\n", "int a;int b;int c;");
    expect_normal("f( a ,\n   b )\n{ return a  +\tb ; }", "f(a,b){return a + b;}");
    expect_normal("int/**/x;", "int x;");
    expect_normal("a /* never closed", "a");
    expect_normal("", "");
}

static void test_normalise__strings__stay(void **state) {
    (void)state;
    expect_normal("s = \"a  /* b */ // c\\\"  d\" ;", "s = \"a  /* b */ // c\\\"  d\";");
    expect_normal("c = '\"'; /* x */ d", "c = '\"';d");
}

static void test_normalise__directives__keep_their_lines(void **state) {
    (void)state;
    expect_normal("int a;\n#define F (x)\nint b;", "int a;\n#define F (x)\nint b;");
    expect_normal("#define F(x)  x \\\n   + 1 /* c */\n  # if A\nint b;",
                  "#define F(x) x + 1\n#if A\nint b;");
    /* A # inside a line begins no directive, and nothing grows. */
    expect_normal("a#b#c#d;", "a#b#c#d;");
    expect_normal("/* c */ #if A\nb", "#if A\nb");
}

static void test_includes__are_found__in_order(void **state) {
    (void)state;
    char text[] = "#include <stdio.h>\n#include \"a.h\" /* x */\nint c; // #include \"no.h\"\n"
                  "  #  include \"b.h\"\n#include \"kernels/c.cuh\"\n";
    const size_t size = lab_text_normalise(text, strlen(text));
    char name[64];
    size_t at = 0;
    assert_true(lab_text_next_include(text, size, &at, name, sizeof name));
    assert_string_equal(name, "a.h");
    assert_true(lab_text_next_include(text, size, &at, name, sizeof name));
    assert_string_equal(name, "b.h");
    assert_true(lab_text_next_include(text, size, &at, name, sizeof name));
    assert_string_equal(name, "kernels/c.cuh");
    assert_false(lab_text_next_include(text, size, &at, name, sizeof name));
}

/* A tree in memory: pairs of name and text. */
static const char *const *tree;

static char *tree_text(const char *name, size_t *size) {
    for (size_t i = 0; tree[i]; i += 2)
        if (strcmp(tree[i], name) == 0) {
            *size = strlen(tree[i + 1]);
            return strdup(tree[i + 1]);
        }
    return NULL;
}

static const char *digest_of(const char *const *files, const char *flags) {
    static char hex[4][ATT_SHA256_HEX];
    static int next;
    lab_closure closure;
    lab_message why;
    char *out = hex[next++ % 4];
    tree = files;
    lab_closure_begin(&closure, tree_text);
    if (!lab_closure_add(&closure, files[0], &why))
        fail_msg("%s", why.text);
    lab_closure_digest(&closure.sha, flags, out);
    lab_closure_free(&closure);
    assert_int_equal(strlen(out), 64);
    return out;
}

static void test_closure__comments__do_not_count(void **state) {
    (void)state;
    const char *const plain[] = {"a.cu", "#include \"b.h\"\nint a;", "b.h", "int b;", NULL};
    const char *const commented[] = {"a.cu", "/* a */\n#include \"b.h\"\n\nint  a; // x", "b.h",
                                     "int b; /* why */\n", NULL};
    assert_string_equal(digest_of(plain, "-DX=1"), digest_of(commented, "-DX=1"));
}

static void test_closure__what_runs__counts(void **state) {
    (void)state;
    const char *const plain[] = {"a.cu", "#include \"b.h\"\nint a;", "b.h", "int b;", NULL};
    const char *const deeper[] = {"a.cu", "#include \"b.h\"\nint a;", "b.h", "int c;", NULL};
    const char *const moved[] = {"a.cu", "#include \"b.h\"\nint a; int b;", "b.h", "", NULL};
    assert_string_not_equal(digest_of(plain, ""), digest_of(deeper, ""));
    assert_string_not_equal(digest_of(plain, ""), digest_of(moved, ""));
    assert_string_not_equal(digest_of(plain, "-DX=1"), digest_of(plain, "-DX=2"));
}

static void test_closure__circles_and_system_headers__are_passed_over(void **state) {
    (void)state;
    const char *const circle[] = {"a.h", "#include \"b.h\"\n#include \"absent.h\"\nint a;",
                                  "b.h", "#include \"a.h\"\nint b;", NULL};
    digest_of(circle, "");
}

static void test_closure__no_such_source__fails(void **state) {
    (void)state;
    const char *const files[] = {"a.h", "", NULL};
    lab_closure closure;
    lab_message why;
    char hex[ATT_SHA256_HEX];
    tree = files;
    lab_closure_begin(&closure, tree_text);
    assert_false(lab_closure_add(&closure, "z.h", &why));
    assert_non_null(strstr(why.text, "z.h"));
    lab_closure_digest(&closure.sha, "", hex);
    lab_closure_free(&closure);
}

static void test_library__every_kernel__has_digests_of_its_own(void **state) {
    (void)state;
    const char *last = NULL;
    lab_code_digests *seen = calloc(att_registry_count(), sizeof *seen);
    assert_non_null(seen);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        lab_message why;
        if (!lab_code_digests_of(&seen[i], row, 80, &why))
            fail_msg("%s: %s", row->id, why.text);
        assert_int_equal(strlen(seen[i].source), 64);
        assert_true(*seen[i].flags || !row->cuda);
        for (size_t j = 0; row->cuda && j < i; j++)
            if (strcmp(seen[i].source, seen[j].source) == 0)
                fail_msg("%s and %s have one digest", row->id, att_registry_row(j)->id);
        if (!row->cuda)
            last = seen[i].source;
    }
    assert_non_null(last);
    free(seen);
    static const char *const parts[] = {"judge", "clock", "host", "gpu_tests"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_int_equal(strlen(lab_built_digest(parts[i])), 64);
    assert_string_equal(lab_built_digest("nothing"), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normalise__comments_and_layout__are_gone),
        cmocka_unit_test(test_normalise__strings__stay),
        cmocka_unit_test(test_normalise__directives__keep_their_lines),
        cmocka_unit_test(test_includes__are_found__in_order),
        cmocka_unit_test(test_closure__comments__do_not_count),
        cmocka_unit_test(test_closure__what_runs__counts),
        cmocka_unit_test(test_closure__circles_and_system_headers__are_passed_over),
        cmocka_unit_test(test_closure__no_such_source__fails),
        cmocka_unit_test(test_library__every_kernel__has_digests_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
