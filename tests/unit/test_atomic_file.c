/* test_atomic_file.c: files that appear whole or not at all, with the permissions that they
 * had. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab/base/atomic_file.h"
#include "tests/support/check.h"

/* System calls of this program, in order: "s" fsync of a file, "S" of a folder, "r" rename, "l"
 * linkat. */
static char calls[64];
static bool no_tmpfile;

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_linkat(int a, const char *from, int b, const char *to, int flags);
int __wrap_linkat(int a, const char *from, int b, const char *to, int flags);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

static void note(const char *call) {
    strncat(calls, call, sizeof calls - strlen(calls) - 1);
}

int __wrap_fsync(int fd) {
    struct stat info;
    note(fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) ? "S" : "s");
    return __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to) {
    note("r");
    return __real_rename(from, to);
}

int __wrap_linkat(int a, const char *from, int b, const char *to, int flags) {
    note("l");
    return __real_linkat(a, from, b, to, flags);
}

/* As if there were no /proc: a nameless file could not be given a name. */
int __wrap_access(const char *path, int mode) {
    return no_tmpfile && strncmp(path, "/proc/", 6) == 0 ? -1 : __real_access(path, mode);
}

static char folder[] = "/tmp/attest-atomic-XXXXXX";
static char path[64];

static int entries(void) {
    DIR *list = opendir(folder);
    assert_non_null(list);
    int n = 0;
    for (const struct dirent *entry; (entry = readdir(list));)
        n += entry->d_name[0] != '.';
    closedir(list);
    return n;
}

static void assert_holds(const char *text) {
    char buf[64] = "";
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_true(read(fd, buf, sizeof buf - 1) >= 0);
    close(fd);
    assert_string_equal(buf, text);
}

static void write_one(const char *text) {
    lab_atomic_file file;
    lab_message why;
    assert_true(lab_atomic_create(&file, path, &why));
    assert_int_equal(write(file.fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_true(lab_atomic_commit(&file, &why));
}

static mode_t mode_of(void) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 07777;
}

static void test_commit__new_and_old_target__whole_and_on_disk_first(void **state) {
    (void)state;
    for (int named = 0; named < 2; named++) {
        no_tmpfile = named;
        unlink(path);
        calls[0] = '\0';
        write_one("one");
        assert_holds("one");
        assert_string_equal(calls, named ? "srS" : "slS");
        calls[0] = '\0';
        write_one("two");
        assert_holds("two");
        assert_string_equal(calls, named ? "srS" : "sllrS");
        assert_int_equal(entries(), 1);
    }
    no_tmpfile = false;
}

static void test_commit__permissions__are_those_of_what_is_replaced(void **state) {
    (void)state;
    static const mode_t modes[] = {0600, 0640, 0644, 0666};
    for (int named = 0; named < 2; named++) {
        no_tmpfile = named;
        for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
            write_one("old");
            assert_int_equal(chmod(path, modes[i]), 0);
            write_one("new");
            assert_int_equal(mode_of(), modes[i]);
        }
        unlink(path);
        const mode_t before = umask(027);
        write_one("new");
        umask(before);
        assert_int_equal(mode_of(), 0640);
    }
    no_tmpfile = false;
}

static void test_discard__uncommitted__leaves_the_old_one(void **state) {
    (void)state;
    write_one("old");
    for (int named = 0; named < 2; named++) {
        no_tmpfile = named;
        lab_atomic_file file;
        lab_message why;
        assert_true(lab_atomic_create(&file, path, &why));
        assert_int_equal(write(file.fd, "x", 1), 1);
        lab_atomic_discard(&file);
        lab_atomic_discard(&file);
        assert_holds("old");
        assert_int_equal(entries(), 1);
    }
    no_tmpfile = false;
    lab_atomic_file zeroed = {0};
    lab_atomic_discard(&zeroed);
    assert_true(fcntl(0, F_GETFD) >= 0); /* descriptor 0 is not ours to close */
}

static void test_create__killed_before_the_commit__leaves_nothing(void **state) {
    (void)state;
    unlink(path);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        lab_atomic_file file;
        const bool ok = lab_atomic_create(&file, path, NULL) && write(file.fd, "x", 1) == 1;
        if (write(ready[1], ok && !file.temporary ? "y" : "n", 1) == 1)
            pause();
        _exit(1);
    }
    char nameless = 0;
    assert_int_equal(read(ready[0], &nameless, 1), 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
    if (nameless != 'y')
        skip(); /* the file system does not support nameless files */
    assert_int_equal(entries(), 0);
}

static void test_create__no_folder__named(void **state) {
    (void)state;
    lab_atomic_file file;
    lab_message why;
    assert_false(lab_atomic_create(&file, "/no/such/file", &why));
    assert_string_equal(why.text,
                        "/no/such/file: cannot be created: No such file or directory");
    assert_false(lab_atomic_create(&file, "/dev/null", &why));
    assert_non_null(strstr(why.text, "not a regular file"));
}

static int begin(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int end(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* A plug-in may change the working folder of the process. */
static void test_commit__another_working_folder__is_where_it_was_asked_for(void **state) {
    (void)state;
    static const char *const names[] = {"moved", "./moved", "../moved"};
    char inner[80], before[512];
    lab_atomic_file file;
    lab_message why;
    assert_non_null(getcwd(before, sizeof before));
    snprintf(inner, sizeof inner, "%s/inner", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    for (int named = 0; named < 2; named++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            no_tmpfile = named;
            assert_int_equal(chdir(names[i][1] == '.' ? inner : folder), 0);
            assert_true(lab_atomic_create(&file, names[i], &why));
            assert_int_equal(chdir("/"), 0);
            const bool ok = lab_atomic_commit(&file, &why);
            no_tmpfile = false;
            if (!ok)
                fail_msg("%s: %s", names[i], why.text);
            assert_int_equal(chdir(folder), 0);
            assert_int_equal(unlink("moved"), 0);
        }
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(chdir(before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit__new_and_old_target__whole_and_on_disk_first),
        cmocka_unit_test(test_commit__permissions__are_those_of_what_is_replaced),
        cmocka_unit_test(test_discard__uncommitted__leaves_the_old_one),
        cmocka_unit_test(test_create__killed_before_the_commit__leaves_nothing),
        cmocka_unit_test(test_create__no_folder__named),
        cmocka_unit_test(test_commit__another_working_folder__is_where_it_was_asked_for),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
