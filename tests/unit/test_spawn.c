/* test_spawn.c: this program starts itself again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/base/spawn.h"
#include "tests/support/check.h"

/* What the program does if it is started with arguments: it prints how, writes to stderr, and
 * exits with the number. */
static int be_the_child(int argc, char **argv) {
    char word[64];
    printf("%s %s %s", argv[0], argv[1], fgets(word, sizeof word, stdin) ? word : "no input");
    fputs("a complaint\n", stderr);
    return argc > 2 ? atoi(argv[2]) : 0;
}

/* Standard error as a file while the child runs. */
static void run_with_error_file(lab_child *child, const char *const argv[], char *text,
                                size_t n) {
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    const int kept = dup(2);
    dup2(fileno(file), 2);
    lab_message why;
    const bool ran = lab_spawn_self(child, argv, &why);
    dup2(kept, 2);
    close(kept);
    rewind(file);
    text[fread(text, 1, n - 1, file)] = '\0';
    fclose(file);
    assert_true(ran);
}

static void test_spawn_self__arguments__reach_this_program(void **state) {
    (void)state;
    const char *const argv[] = {"another name", "--child", "7", NULL};
    char complaint[64];
    lab_child child;
    run_with_error_file(&child, argv, complaint, sizeof complaint);
    assert_int_equal(child.status, 7);
    assert_string_equal(child.out, "another name --child no input");
    assert_string_equal(complaint, "a complaint\n"); /* where this program's go */
    assert_string_equal(child.error, "");
    lab_child_free(&child);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--child") == 0)
        return be_the_child(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spawn_self__arguments__reach_this_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
