/* test_jit_cache.c: the folder of compiled kernels keeps what it was given, and trusts nothing
 * else. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cuda/jit_cache.h"
#include "tests/support/check.h"

static char root[] = "/tmp/attest_cache_XXXXXX";
static char path[PATH_MAX]; /* of the cache in the test's own folder */
static const char key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const unsigned char code[] = "machine code, more than one word of it";

static char *below(const char *name) {
    static char out[PATH_MAX + 512];
    snprintf(out, sizeof out, "%s/%s", path, name);
    return out;
}

/* A new, empty cache. */
static int begin(void) {
    static int number;
    snprintf(path, sizeof path, "%s/some/where/%d", root, number++);
    const int folder = att_jit_cache_open(path);
    assert_true(folder >= 0);
    return folder;
}

static void assert_hit(int folder, const char *name, const void *want, size_t bytes) {
    size_t size = 0;
    unsigned char *got = att_jit_cache_read(folder, name, &size);
    assert_non_null(got);
    assert_int_equal(size, bytes);
    assert_memory_equal(got, want, bytes);
    att_free(got);
}

static void assert_miss(int folder, const char *name) {
    size_t size = 0;
    const long live = att_alloc_live();
    assert_null(att_jit_cache_read(folder, name, &size));
    assert_int_equal(att_alloc_live(), live);
}

static void test_cache__write_and_read__same_bytes(void **state) {
    (void)state;
    const int folder = begin();
    assert_miss(folder, key);
    att_jit_cache_write(folder, key, code, sizeof code, ATT_JIT_CACHE_MAX);
    assert_hit(folder, key, code, sizeof code);
    /* Written again with other contents: the newer ones are read. */
    att_jit_cache_write(folder, key, code, 5, ATT_JIT_CACHE_MAX);
    assert_hit(folder, key, code, 5);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0700);
    assert_int_equal(stat(below(key), &s), 0);
    assert_int_equal(s.st_mode & 07777, 0600);
    close(folder);
}

static void test_open__no_folder__no_cache(void **state) {
    (void)state;
    assert_int_equal(att_jit_cache_open(""), -1);
    assert_int_equal(att_jit_cache_open("/proc/no/such"), -1);
    char longest[PATH_MAX + 10];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(att_jit_cache_open(longest), -1);
}

static void test_open__open_to_others__no_cache(void **state) {
    (void)state;
    close(begin());
    static const mode_t modes[] = {0755, 0770, 0701, 0777};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(att_jit_cache_open(path), -1);
    }
    assert_int_equal(chmod(path, 0700), 0);
    const int folder = att_jit_cache_open(path);
    assert_true(folder >= 0);
    close(folder);
}

/* If the test may change owners, it does. */
static void test_open__someone_elses__no_cache(void **state) {
    (void)state;
    close(begin());
    if (chown(path, 12345, (gid_t)-1) != 0) {
        print_message("skipped: only root can give a folder away\n");
        skip();
    }
    assert_int_equal(att_jit_cache_open(path), -1);
}

static void test_open__symbolic_link__no_cache(void **state) {
    (void)state;
    close(begin());
    char link[PATH_MAX + 16], slashed[PATH_MAX + 32];
    snprintf(link, sizeof link, "%s.link", path);
    snprintf(slashed, sizeof slashed, "%s///", link);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(att_jit_cache_open(link), -1);
    assert_int_equal(att_jit_cache_open(slashed), -1);
    snprintf(slashed, sizeof slashed, "%s///", path);
    const int folder = att_jit_cache_open(slashed);
    assert_true(folder >= 0);
    close(folder);
}

static void test_open__file_in_its_place__no_cache(void **state) {
    (void)state;
    close(begin());
    assert_int_equal(rmdir(path), 0);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(att_jit_cache_open(path), -1);
}

static void test_open__users_folder__by_the_environment(void **state) {
    (void)state;
    struct stat s;
    char home[PATH_MAX];
    snprintf(home, sizeof home, "%s/home", root);
    setenv("HOME", home, 1);
    unsetenv("XDG_CACHE_HOME");
    int folder = att_jit_cache_open(NULL);
    assert_true(folder >= 0);
    close(folder);
    snprintf(path, sizeof path, "%s/home/.cache/attest", root);
    assert_int_equal(stat(path, &s), 0);
    snprintf(home, sizeof home, "%s/xdg", root);
    setenv("XDG_CACHE_HOME", home, 1);
    folder = att_jit_cache_open(NULL);
    assert_true(folder >= 0);
    close(folder);
    snprintf(path, sizeof path, "%s/xdg/attest", root);
    assert_int_equal(stat(path, &s), 0);
    /* A relative path does not count, and without any there is no cache. */
    setenv("XDG_CACHE_HOME", "relative", 1);
    unsetenv("HOME");
    assert_int_equal(att_jit_cache_open(NULL), -1);
    unsetenv("XDG_CACHE_HOME");
}

/* Every byte of an entry matters, and every length but its own is wrong. */
static void test_read__changed_entry__not_there(void **state) {
    (void)state;
    const int folder = begin();
    att_jit_cache_write(folder, key, code, sizeof code, ATT_JIT_CACHE_MAX);
    struct stat s;
    assert_int_equal(stat(below(key), &s), 0);
    for (off_t at = 0; at < s.st_size; at++) {
        const int file = open(below(key), O_RDWR);
        unsigned char byte;
        assert_int_equal(pread(file, &byte, 1, at), 1);
        byte ^= 1;
        assert_int_equal(pwrite(file, &byte, 1, at), 1);
        assert_miss(folder, key);
        byte ^= 1;
        assert_int_equal(pwrite(file, &byte, 1, at), 1);
        close(file);
    }
    assert_hit(folder, key, code, sizeof code);
    for (off_t size = s.st_size - 1; size >= 0; size--) {
        assert_int_equal(truncate(below(key), size), 0);
        assert_miss(folder, key);
    }
    assert_int_equal(truncate(below(key), 33 << 20), 0);
    assert_miss(folder, key);
    att_jit_cache_write(folder, key, code, sizeof code, ATT_JIT_CACHE_MAX);
    assert_hit(folder, key, code, sizeof code);
    close(folder);
}

static void test_read__entry_of_another_key__not_there(void **state) {
    (void)state;
    const int folder = begin();
    static const char other[] =
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
    att_jit_cache_write(folder, other, code, sizeof code, ATT_JIT_CACHE_MAX);
    assert_int_equal(renameat(folder, other, folder, key), 0);
    assert_miss(folder, key);
    close(folder);
}

static void test_read__not_a_private_file__not_there(void **state) {
    (void)state;
    const int folder = begin();
    att_jit_cache_write(folder, "good", code, sizeof code, ATT_JIT_CACHE_MAX);
    /* A link to a valid entry of the same key, as an attacker would place it. */
    assert_int_equal(renameat(folder, "good", folder, "target"), 0);
    att_jit_cache_write(folder, key, code, sizeof code, ATT_JIT_CACHE_MAX);
    assert_int_equal(renameat(folder, key, folder, "moved"), 0);
    assert_int_equal(symlinkat("moved", folder, key), 0);
    assert_miss(folder, key);
    /* Writing replaces the link and leaves its target alone. */
    att_jit_cache_write(folder, key, code, 3, ATT_JIT_CACHE_MAX);
    assert_hit(folder, key, code, 3);
    struct stat s;
    assert_int_equal(fstatat(folder, "moved", &s, 0), 0);
    assert_true(s.st_size > (off_t)sizeof code);
    /* Others could have written it. */
    assert_int_equal(fchmodat(folder, key, 0666, 0), 0);
    assert_miss(folder, key);
    /* A pipe would block the reader; a folder is not a file. */
    assert_int_equal(unlinkat(folder, key, 0), 0);
    assert_int_equal(mkfifo(below(key), 0600), 0);
    assert_miss(folder, key);
    assert_int_equal(unlinkat(folder, key, 0), 0);
    assert_int_equal(mkdirat(folder, key, 0700), 0);
    assert_miss(folder, key);
    att_jit_cache_write(folder, key, code, sizeof code, ATT_JIT_CACHE_MAX);
    assert_miss(folder, key);
    close(folder);
}

static void test_read__no_memory__not_there(void **state) {
    (void)state;
    const int folder = begin();
    att_jit_cache_write(folder, key, code, sizeof code, ATT_JIT_CACHE_MAX);
    att_alloc_fail_after(0);
    size_t size;
    assert_null(att_jit_cache_read(folder, key, &size));
    att_alloc_fail_after(-1);
    assert_hit(folder, key, code, sizeof code);
    close(folder);
}

static void make_older(int folder, const char *name, time_t seconds) {
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(folder, name, times, 0), 0);
}

static void test_write__folder_full__oldest_go(void **state) {
    (void)state;
    const int folder = begin();
    static unsigned char large[1000];
    const int64_t limit = 3500; /* three of them, with their headers */
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++) {
        att_jit_cache_write(folder, names[i], large, sizeof large, limit);
        assert_hit(folder, names[i], large, sizeof large);
        make_older(folder, names[i], 1000 + i);
    }
    assert_miss(folder, "a");
    assert_miss(folder, "b");
    for (int i = 2; i < 5; i++)
        assert_hit(folder, names[i], large, sizeof large);
    /* What can never fit is not kept, and evicts nothing else once the folder is empty. */
    att_jit_cache_write(folder, "f", large, sizeof large, 100);
    assert_miss(folder, "f");
    /* Nor what no reader would accept. */
    unsigned char *huge = calloc(1, 33 << 20);
    assert_non_null(huge);
    att_jit_cache_write(folder, "g", huge, 33 << 20, ATT_JIT_CACHE_MAX);
    assert_miss(folder, "g");
    free(huge);
    close(folder);
}

static void test_write__folder_gone__nothing_happens(void **state) {
    (void)state;
    const int folder = begin();
    assert_int_equal(rmdir(path), 0);
    att_jit_cache_write(folder, key, code, sizeof code, ATT_JIT_CACHE_MAX);
    assert_miss(folder, key);
    close(folder);
    att_jit_cache_write(-1, key, code, sizeof code, ATT_JIT_CACHE_MAX);
    att_jit_cache_write(-1, key, code, sizeof code, 1);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_all(void **state) {
    (void)state;
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command); /* a test's own folder, by a name that it made */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache__write_and_read__same_bytes),
        cmocka_unit_test(test_open__no_folder__no_cache),
        cmocka_unit_test(test_open__open_to_others__no_cache),
        cmocka_unit_test(test_open__someone_elses__no_cache),
        cmocka_unit_test(test_open__symbolic_link__no_cache),
        cmocka_unit_test(test_open__file_in_its_place__no_cache),
        cmocka_unit_test(test_open__users_folder__by_the_environment),
        cmocka_unit_test(test_read__changed_entry__not_there),
        cmocka_unit_test(test_read__entry_of_another_key__not_there),
        cmocka_unit_test(test_read__not_a_private_file__not_there),
        cmocka_unit_test(test_read__no_memory__not_there),
        cmocka_unit_test(test_write__folder_full__oldest_go),
        cmocka_unit_test(test_write__folder_gone__nothing_happens),
    };
    return cmocka_run_group_tests(tests, set_up, remove_all);
}
