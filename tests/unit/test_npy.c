/* test_npy.c: .npy headers: valid, unusual and hostile; files that appear whole or not at
 * all. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "lab/base/random.h"
#include "lab/problem/npy.h"
#include "lab/problem/npy_header.h"

static char folder[] = "/tmp/attest-npy-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static const char *in_folder(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int files_in_folder(void) {
    int count = 0;
    DIR *open_folder = opendir(folder);
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(open_folder);
    return count;
}

static int remove_folder(void **state) {
    (void)state;
    DIR *open_folder = opendir(folder);
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;)
        if (entry->d_name[0] != '.')
            unlink(in_folder(entry->d_name));
    closedir(open_folder);
    return rmdir(folder);
}

/* A file of version `version` with the header text, spaces up to a multiple of 16 and `shift`
 * more, then `data_bytes` zeros. */
static size_t compose(unsigned char *file, int version, const char *text, size_t shift,
                      size_t data_bytes) {
    const size_t prefix = version == 1 ? 10 : 12, end = prefix + strlen(text);
    const size_t length = (end + 15) / 16 * 16 + shift - prefix;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (unsigned char)version;
    file[7] = 0;
    for (size_t i = 8; i < prefix; i++)
        file[i] = (unsigned char)(length >> 8 * (i - 8));
    memset(file + prefix, ' ', length);
    memcpy(file + prefix, text, strlen(text));
    memset(file + prefix + length, 0, data_bytes);
    return prefix + length + data_bytes;
}

static bool parse(const char *text, size_t data_bytes, lab_npy *out, lab_message *why) {
    unsigned char file[4096];
    const size_t n = compose(file, 1, text, 0, data_bytes);
    size_t offset;
    return lab_npy_header_parse(out, &offset, file, n, "x.npy", why);
}

static void test_header__plain__is_read(void **state) {
    (void)state;
    lab_npy array;
    assert_true(
        parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, &array, NULL));
    assert_int_equal(array.type, LAB_NPY_FLOAT32);
    assert_int_equal(array.dims, 2);
    assert_int_equal(array.shape[0], 2);
    assert_int_equal(array.shape[1], 3);
    assert_int_equal(array.count, 6);
}

static void test_header__odd_but_valid__is_read(void **state) {
    (void)state;
    lab_npy array;
    assert_true(
        parse("{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"|b1\"}", 1, &array, NULL));
    assert_int_equal(array.type, LAB_NPY_BOOL);
    assert_true(
        parse("{'shape':(2L,), 'fortran_order':False, 'descr':'|u1'}\n", 2, &array, NULL));
    assert_int_equal(array.count, 2);
    assert_true(
        parse("{'descr': '<u1', 'fortran_order': False, 'shape': ()}", 1, &array, NULL));
    assert_int_equal(array.dims, 0);
    assert_int_equal(array.count, 1);
    assert_true(
        parse("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 0), }", 0, &array, NULL));
    assert_int_equal(array.count, 0);
}

static void test_header__versions_2_and_3__are_read(void **state) {
    (void)state;
    unsigned char file[256];
    for (int version = 2; version <= 3; version++) {
        const size_t n = compose(
            file, version, "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", 0, 8);
        lab_npy array;
        size_t offset;
        assert_true(lab_npy_header_parse(&array, &offset, file, n, "x.npy", NULL));
        assert_int_equal(offset + 8, n);
    }
}

typedef struct bad_header {
    const char *text, *complaint;
} bad_header;

static void test_header__wrong__says_what_is_wrong(void **state) {
    (void)state;
    static const bad_header all[] = {
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", "Fortran order"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "big-endian"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", "'<c8' are not served"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "'|O' are not served"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "'descr'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "not a size"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2.5,), }", "not closed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", "not a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,", "not a size"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", "neither True nor False"},
        {"{'descr': '<f4', 'shape': (2,), }", "is missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
         "repeated key"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'evil': 1}", "unknown"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", "after the dictionary"},
        {"{'descr': '<f\\x34', 'fortran_order': False, 'shape': (2,), }", "'descr'"},
        {"__import__('os').system('true')", "no dictionary"},
        {"", "no dictionary"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }",
         "more than 8"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
         "63 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
         "63 bits"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,), }",
         "63 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }",
         "63 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000,), }", "truncated"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        lab_npy array;
        lab_message why = {.text = ""};
        assert_false(parse(all[i].text, 64, &array, &why));
        if (!strstr(why.text, all[i].complaint))
            fail_msg("\"%s\" gave \"%s\"", all[i].text, why.text);
        assert_non_null(strstr(why.text, "x.npy"));
    }
}

static void test_header__misaligned_elements__are_refused(void **state) {
    (void)state;
    unsigned char file[256];
    const size_t n =
        compose(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 1, 8);
    lab_npy array;
    lab_message why;
    size_t offset;
    assert_false(lab_npy_header_parse(&array, &offset, file, n, "x.npy", &why));
    assert_non_null(strstr(why.text, "not a multiple"));
}

/* Every truncation of a valid file, and any single byte of it changed, is read or refused:
 * never a crash, never more elements than there are bytes. */
static void test_header__cut_or_changed_anywhere__never_overruns(void **state) {
    (void)state;
    unsigned char good[256];
    const size_t n =
        compose(good, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 0, 24);
    for (size_t cut = 0; cut < n; cut++) {
        unsigned char *copy = malloc(cut ? cut : 1); /* exact size, so that ASan sees an
                                                      * overrun */
        memcpy(copy, good, cut);
        lab_npy array;
        size_t offset;
        assert_false(lab_npy_header_parse(&array, &offset, copy, cut, "x.npy", NULL));
        free(copy);
    }
    lab_random random;
    lab_random_seed(&random, 1, 0);
    for (int trial = 0; trial < 20000; trial++) {
        unsigned char *copy = malloc(n);
        memcpy(copy, good, n);
        copy[lab_random_below(&random, (int64_t)n)] = (unsigned char)lab_random_bits(&random);
        copy[lab_random_below(&random, (int64_t)n)] = (unsigned char)lab_random_bits(&random);
        lab_npy array;
        size_t offset;
        if (lab_npy_header_parse(&array, &offset, copy, n, "x.npy", NULL))
            assert_true(offset + (size_t)array.count * lab_npy_type_size(array.type) <= n);
        free(copy);
    }
}

static void test_header__formatted__is_read_back(void **state) {
    (void)state;
    const int64_t shape[LAB_NPY_MAX_DIMS] = {1, 2, 3, 1, 1, 1, 1, 2};
    for (int dims = 0; dims <= LAB_NPY_MAX_DIMS; dims++) {
        for (int type = LAB_NPY_BOOL; type <= LAB_NPY_FLOAT64; type++) {
            char header[512];
            unsigned char file[1024] = {0};
            const size_t n = lab_npy_header_format(header, (lab_npy_type)type, dims, shape);
            assert_int_equal(n % 64, 0);
            memcpy(file, header, n);
            lab_npy array;
            size_t offset;
            assert_true(lab_npy_header_parse(&array, &offset, file, n + 12 * 8, "x.npy", NULL));
            assert_int_equal(offset, n);
            assert_int_equal((int)array.type, type);
            assert_int_equal(array.dims, dims);
            assert_memory_equal(array.shape, shape, (size_t)dims * sizeof shape[0]);
        }
    }
}

static void test_writer__committed__is_there_and_reads_back(void **state) {
    (void)state;
    lab_npy_writer writer;
    const int64_t shape[2] = {2, 3};
    assert_true(lab_npy_create(&writer, in_folder("a.npy"), LAB_NPY_FLOAT32, 2, shape, NULL));
    for (int i = 0; i < 6; i++)
        ((float *)writer.data)[i] = (float)i;
    assert_true(access(in_folder("a.npy"), F_OK) != 0);
    assert_true(lab_npy_commit(&writer, NULL));
    assert_int_equal(files_in_folder(), 1);
    lab_npy array;
    assert_true(lab_npy_open(&array, in_folder("a.npy"), NULL));
    assert_int_equal(array.count, 6);
    assert_true(((const float *)array.data)[5] == 5.0f);
    lab_npy_close(&array);
    struct stat info;
    const mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(in_folder("a.npy"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
    unlink(in_folder("a.npy"));
}

static void test_writer__discarded__leaves_the_old_file(void **state) {
    (void)state;
    FILE *old = fopen(in_folder("old.npy"), "w");
    fputs("old", old);
    fclose(old);
    lab_npy_writer writer;
    const int64_t shape[1] = {1000};
    assert_true(lab_npy_create(&writer, in_folder("old.npy"), LAB_NPY_INT32, 1, shape, NULL));
    lab_npy_discard(&writer);
    lab_npy_discard(&writer);
    assert_int_equal(files_in_folder(), 1);
    struct stat info;
    assert_int_equal(stat(in_folder("old.npy"), &info), 0);
    assert_int_equal(info.st_size, 3);
    unlink(in_folder("old.npy"));
}

static void test_writer__link__replaces_its_target(void **state) {
    (void)state;
    FILE *old = fopen(in_folder("target.npy"), "w");
    fclose(old);
    assert_int_equal(symlink("target.npy", in_folder("link.npy")), 0);
    lab_npy_writer writer;
    assert_true(lab_npy_create(&writer, in_folder("link.npy"), LAB_NPY_UINT8, 0, NULL, NULL));
    assert_true(lab_npy_commit(&writer, NULL));
    struct stat info;
    assert_int_equal(lstat(in_folder("link.npy"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(in_folder("target.npy"), &info), 0);
    assert_true(info.st_size > 0);
    unlink(in_folder("link.npy"));
    unlink(in_folder("target.npy"));
}

static void test_writer__device_folder_or_nowhere__is_refused(void **state) {
    (void)state;
    lab_npy_writer writer;
    lab_message why;
    const int64_t shape[1] = {1};
    assert_false(lab_npy_create(&writer, "/dev/null", LAB_NPY_UINT8, 1, shape, &why));
    assert_non_null(strstr(why.text, "not a regular file"));
    assert_false(lab_npy_create(&writer, folder, LAB_NPY_UINT8, 1, shape, &why));
    assert_false(lab_npy_create(&writer, "/no/such/folder/x", LAB_NPY_UINT8, 1, shape, &why));
    assert_non_null(strstr(why.text, "No such file"));
    const int64_t absurd[2] = {INT64_MAX, 2};
    assert_false(lab_npy_create(&writer, in_folder("x"), LAB_NPY_UINT8, 2, absurd, &why));
    const int64_t endless[1] = {INT64_MAX - 8};
    assert_false(lab_npy_create(&writer, in_folder("x"), LAB_NPY_UINT8, 1, endless, &why));
    assert_int_equal(files_in_folder(), 0);
}

static void test_open__not_an_array_file__is_refused(void **state) {
    (void)state;
    lab_npy array;
    lab_message why;
    assert_false(lab_npy_open(&array, "/no/such/file", &why));
    assert_non_null(strstr(why.text, "No such file"));
    assert_false(lab_npy_open(&array, folder, &why));
    assert_non_null(strstr(why.text, "not a regular file"));
    assert_false(lab_npy_open(&array, "/dev/zero", &why));
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    assert_false(lab_npy_open(&array, in_folder("fifo"), &why));
    unlink(in_folder("fifo"));
    fclose(fopen(in_folder("empty"), "w"));
    assert_false(lab_npy_open(&array, in_folder("empty"), &why));
    assert_non_null(strstr(why.text, "empty"));
    unlink(in_folder("empty"));
    assert_null(array.mapping);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header__plain__is_read),
        cmocka_unit_test(test_header__odd_but_valid__is_read),
        cmocka_unit_test(test_header__versions_2_and_3__are_read),
        cmocka_unit_test(test_header__wrong__says_what_is_wrong),
        cmocka_unit_test(test_header__misaligned_elements__are_refused),
        cmocka_unit_test(test_header__cut_or_changed_anywhere__never_overruns),
        cmocka_unit_test(test_header__formatted__is_read_back),
        cmocka_unit_test(test_writer__committed__is_there_and_reads_back),
        cmocka_unit_test(test_writer__discarded__leaves_the_old_file),
        cmocka_unit_test(test_writer__link__replaces_its_target),
        cmocka_unit_test(test_writer__device_folder_or_nowhere__is_refused),
        cmocka_unit_test(test_open__not_an_array_file__is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
