/* test_cuda_jit.c: the path through NVRTC: found or not, its arguments, its message on failure,
 * its cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cuda/jit.h"
#include "tests/fake_cuda/fake_tables.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"

static fake_nvrtc *fake;
static unsigned char *code;
static size_t size;

static att_status compile(const att_cuda_kernel *row, const char *defines, const char *cache) {
    return att_jit_compile(&code, &size, row, 90, defines, cache);
}

/* Comes first: a compiler that was found is kept. */
static void test_jit__no_compiler__says_so(void **state) {
    (void)state;
    const char *why = NULL;
    use_no_nvrtc();
    assert_false(att_jit_available(&why));
    assert_non_null(strstr(why, "NVRTC"));
    assert_fails(compile(&fake_all, NULL, ""), ATT_E_UNSUPPORTED, "kernel",
                 "fake_all must be compiled for this GPU, but NVRTC");
    assert_null(code);
    /* A library that is not a compiler. */
    setenv("ATTEST_LIBNVRTC", "libm.so.6", 1);
    assert_false(att_jit_available(NULL));
    /* And a compiler that does not report its version. */
    fake = use_fake_nvrtc();
    fake->calls = 0;
    fake->fail_at = 1;
    assert_false(att_jit_available(NULL));
    fake->fail_at = 0;
    /* A search that has just failed is not repeated, unless the environment has changed. */
    const long calls = fake->calls;
    assert_false(att_jit_available(NULL));
    assert_int_equal(fake->calls, calls);
    setenv("CUDA_HOME", "/nonexistent", 1);
    assert_true(att_jit_available(&why));
    assert_string_equal(why, "");
    unsetenv("CUDA_HOME");
}

static void test_jit__source_missing__says_so(void **state) {
    (void)state;
    att_cuda_kernel row = fake_all;
    row.source = "absent";
    assert_fails(compile(&row, NULL, ""), ATT_E_UNSUPPORTED, "kernel",
                 "no source kernels/absent.cu");
}

static void test_jit__does_not_compile__log_in_the_text(void **state) {
    (void)state;
    fake->log = "kernels/fake.cu(1): warning: nothing much\n"
                "kernels/fake.cu(7): error: identifier \"x\" is undefined\n";
    assert_fails(compile(&fake_all, NULL, ""), ATT_E_UNSUPPORTED, "kernel",
                 "fake_all does not compile: kernels/fake.cu(7): error: identifier");
    fake->log = "no such architecture";
    assert_fails(compile(&fake_all, NULL, ""), ATT_E_UNSUPPORTED, "kernel",
                 "fake_all does not compile: no such architecture");
    fake->log = "";
    assert_fails(compile(&fake_all, NULL, ""), ATT_E_UNSUPPORTED, "kernel", "gave no reason");
    assert_int_equal(fake->programs_live, 0);
    fake->log = NULL;
}

static void check_each_call_failing(long least) {
    const long live = att_alloc_live();
    long n = 1;
    for (;; n++) {
        fake->calls = 0;
        fake->fail_at = n;
        const att_status status = compile(&fake_all, NULL, "");
        if (n > fake->calls) /* none failed by that number */
            break;
        assert_int_equal(status, ATT_E_UNSUPPORTED);
        assert_null(code);
        assert_int_equal(fake->programs_live, 0);
        assert_int_equal(att_alloc_live(), live);
    }
    assert_true(n > least);
    fake->fail_at = 0;
}

static void test_jit__each_call_failing__status_no_leak_then_works(void **state) {
    (void)state;
    check_each_call_failing(4);
    att_free(code);
    fake->log = "error";
    check_each_call_failing(4);
    fake->log = NULL;
    assert_ok(compile(&fake_all, NULL, ""));
    att_free(code);
}

static void test_jit__roles_and_types__named(void **state) {
    (void)state;
    static const struct {
        att_cuda_role role;
        att_dtype dtype;
        const char *flags;
    } cases[] = {
        {ATT_ROLE_PLAIN, ATT_F32, "-DROLE=PLAIN -DDTYPE=F32"},
        {ATT_ROLE_GENERAL, ATT_F16, "-DROLE=GENERAL -DDTYPE=F16"},
        {ATT_ROLE_DECODE, ATT_BF16, "-DROLE=DECODE -DDTYPE=BF16"},
        {ATT_ROLE_COMBINE, 0, "-DROLE=COMBINE -DDTYPE=ANY"},
        {ATT_ROLE_RUNG, 0, "-DROLE=RUNG -DDTYPE=ANY"},
        {ATT_ROLE_SMALL, ATT_F16, "-DROLE=SMALL -DDTYPE=F16"},
        {ATT_ROLE_SPLIT, ATT_F16, "-DROLE=SPLIT -DDTYPE=F16"},
        {(att_cuda_role)99, 0, "-DROLE=UNKNOWN -DDTYPE=ANY"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        att_cuda_kernel row = fake_all;
        row.role = cases[i].role;
        row.dtype = cases[i].dtype;
        assert_ok(compile(&row, NULL, ""));
        assert_non_null(strstr(fake->options, cases[i].flags));
        att_free(code);
    }
}

static void compile_and_count(const char *defines, const char *cache, long more) {
    const long before = fake->compiled;
    assert_ok(compile(&fake_all, defines, cache));
    assert_int_equal(fake->compiled - before, more);
    /* The fake's machine code is the flags it was given. */
    assert_non_null(strstr((const char *)code, "-DKERNEL=fake_all"));
    att_free(code);
}

static void test_jit__cache__compiled_once_a_key(void **state) {
    (void)state;
    char folder[] = "/tmp/attest_jit_XXXXXX";
    assert_non_null(mkdtemp(folder));
    compile_and_count(NULL, folder, 1);
    compile_and_count(NULL, folder, 0);
    compile_and_count("-DA=1", folder, 1);
    compile_and_count("-DA=1", folder, 0);
    compile_and_count("-DA=2", folder, 1);
    compile_and_count(NULL, "", 1);
    compile_and_count(NULL, "/proc/no/such", 1);
    const long before = fake->compiled;
    assert_ok(att_jit_compile(&code, &size, &fake_all, 89, NULL, folder));
    att_free(code);
    att_cuda_kernel other = fake_all;
    other.source = "other";
    assert_ok(compile(&other, NULL, folder));
    att_free(code);
    assert_int_equal(fake->compiled, before + 2);
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jit__no_compiler__says_so),
        cmocka_unit_test(test_jit__source_missing__says_so),
        cmocka_unit_test(test_jit__does_not_compile__log_in_the_text),
        cmocka_unit_test(test_jit__each_call_failing__status_no_leak_then_works),
        cmocka_unit_test(test_jit__roles_and_types__named),
        cmocka_unit_test(test_jit__cache__compiled_once_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
