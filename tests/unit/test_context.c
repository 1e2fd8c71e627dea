/* test_context.c: opening a device: options, environment, what it reports, what it refuses. */
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cpu/features.h"
#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/problems.h"

static att_context_options cpu_options(void) {
    return (att_context_options){.size = sizeof(att_context_options), .device = ATT_DEVICE_CPU};
}

static void refuse(const att_context_options *options, att_status status, const char *field,
                   const char *word) {
    int unlikely;
    att_context *ctx = (att_context *)(void *)&unlikely;
    assert_fails(att_context_create(&ctx, options), status, field, word);
    assert_null(ctx);
}

static att_context_info info_of(att_context *ctx) {
    att_context_info info = {.size = sizeof info};
    assert_ok(att_context_query(ctx, &info));
    return info;
}

static void test_context__no_options__opens_with_defaults(void **state) {
    (void)state;
    att_context *ctx;
    assert_ok(att_context_create(&ctx, NULL));
    const att_context_info info = info_of(ctx);
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    assert_int_equal(info.device, ATT_DEVICE_CPU);
    assert_int_equal(info.threads, CPU_COUNT(&allowed));
    assert_int_equal(info.isa, att_cpu_isa_unasked());
#if !defined ATT_AMX_EMULATE && !defined ATT_AVX512_EMULATE
    assert_int_equal(info.isa, info.isa_machine);
#endif
    assert_true(info.name[0] != '\0' && memchr(info.name, '\0', sizeof info.name) != NULL);
    att_context_destroy(ctx);
}

/* Rows are not used on a CPU, but a requested file that cannot be read is an error. */
static void test_context__rows_on_a_cpu__checked_all_the_same(void **state) {
    (void)state;
    att_context *ctx;
    att_context_options options = cpu_options();
    options.rows_file = "/no/such/rows";
    refuse(&options, ATT_E_ARG, "rows_file", "/no/such/rows");
    options.rows_file = NULL;
    options.rows = "attest-rows 1\n[row]\nnonsense = 1\n";
    refuse(&options, ATT_E_ARG, "rows", "nonsense");
    options.rows = NULL;
    const char *before = getenv("ATTEST_ROWS");
    char *kept = before ? strdup(before) : NULL;
    setenv("ATTEST_ROWS", "/no/such/rows", 1);
    refuse(&options, ATT_E_ARG, "ATTEST_ROWS", "/no/such/rows");
    refuse(NULL, ATT_E_ARG, "ATTEST_ROWS", "/no/such/rows");
    options.rows_file = ""; /* none, whatever the environment says */
    assert_ok(att_context_create(&ctx, &options));
    att_context_destroy(ctx);
    if (kept)
        setenv("ATTEST_ROWS", kept, 1);
    else
        unsetenv("ATTEST_ROWS");
    free(kept);
}

static void test_context__options__obeyed(void **state) {
    (void)state;
    for (int32_t threads = 1; threads <= 5; threads++) {
        att_context *ctx = context_open(ATT_ISA_PORTABLE, threads);
        const att_context_info info = info_of(ctx);
        assert_int_equal(info.threads, threads);
        assert_int_equal(info.isa, ATT_ISA_PORTABLE);
        att_context_destroy(ctx);
    }
}

static void test_context__each_isa_of_the_machine__obeyed(void **state) {
    (void)state;
    engines e;
    engines_open(&e, 1);
    for (int i = 0; i < e.count; i++) {
        const att_context_info info = info_of(e.ctx[i]);
        assert_int_equal(info.isa, e.isa[i]);
        assert_int_equal(info.isa_machine, e.isa[e.count - 1]);
    }
    engines_close(&e);
}

/* Those above the machine's, and those of another processor. */
static void test_context__isa_that_the_machine_lacks__device_error(void **state) {
    (void)state;
    att_isa own[ENGINES_MAX];
    const int count = machine_isas(own);
    int refused = 0;
    for (int isa = ATT_ISA_PORTABLE; isa <= ATT_ISA_NEON; isa++) {
        bool has = false;
        for (int i = 0; i < count; i++)
            has = has || own[i] == (att_isa)isa;
        if (has)
            continue;
        att_context_options options = cpu_options();
        options.isa = (att_isa)isa;
        refused++;
        refuse(&options, ATT_E_DEVICE, "isa", isa_name((att_isa)isa));
        setenv("ATTEST_ISA", isa_name((att_isa)isa), 1);
        options.isa = ATT_ISA_AUTO;
        refuse(&options, ATT_E_DEVICE, "ATTEST_ISA", isa_name((att_isa)isa));
        unsetenv("ATTEST_ISA");
    }
    assert_int_equal(count + refused, ATT_ISA_NEON);
    assert_true(refused > 0); /* no processor has both NEON and AVX2 */
}

/* x86-64's sets are a ladder; NEON stands on portable alone. */
static void test_isa__includes__its_own_processor_only(void **state) {
    (void)state;
    for (int has = ATT_ISA_PORTABLE; has <= ATT_ISA_NEON; has++)
        for (int needs = ATT_ISA_AUTO; needs <= ATT_ISA_NEON; needs++) {
            const bool neon = has == ATT_ISA_NEON || needs == ATT_ISA_NEON;
            const bool wanted =
                needs <= ATT_ISA_PORTABLE || needs == has || (!neon && needs < has);
            assert_int_equal(att_isa_includes((att_isa)has, (att_isa)needs), wanted);
        }
}

static void test_isa__names__parsed_back(void **state) {
    (void)state;
    for (int isa = ATT_ISA_AUTO; isa <= ATT_ISA_NEON; isa++) {
        int ok;
        assert_string_equal(att_isa_name((att_isa)isa), isa_name((att_isa)isa));
        assert_int_equal(att_isa_parse(isa_name((att_isa)isa), &ok), isa);
        assert_true(ok);
    }
    assert_string_equal(att_isa_name((att_isa)(ATT_ISA_NEON + 1)), "?");
}

static void test_context__cuda_without_one__device_error(void **state) {
    (void)state;
    att_context_options options = cpu_options();
    options.device = ATT_DEVICE_CUDA;
    refuse(&options, ATT_E_DEVICE, "device", "NVIDIA");
    setenv("ATTEST_DEVICE", "cuda:1", 1);
    refuse(NULL, ATT_E_DEVICE, "device", "NVIDIA");
}

static void test_context__environment_device__obeyed_by_auto_alone(void **state) {
    (void)state;
    setenv("ATTEST_DEVICE", "cuda", 1);
    att_context_options options = cpu_options();
    att_context *ctx;
    assert_ok(att_context_create(&ctx, &options));
    att_context_destroy(ctx);
    options = (att_context_options){.size = sizeof options, .threads = 1};
    assert_ok(att_context_create(&ctx, &options)); /* threads are the CPU's */
    assert_int_equal(info_of(ctx).device, ATT_DEVICE_CPU);
    att_context_destroy(ctx);
    setenv("ATTEST_DEVICE", "cpu", 1);
    assert_ok(att_context_create(&ctx, NULL));
    assert_int_equal(info_of(ctx).device, ATT_DEVICE_CPU);
    att_context_destroy(ctx);
    static const char *const bad[] = {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:12345", "CPU"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("ATTEST_DEVICE", bad[i], 1);
        refuse(NULL, ATT_E_ARG, "ATTEST_DEVICE", bad[i]);
    }
}

static void test_context__switches_of_the_environment__zero_or_one(void **state) {
    (void)state;
    static const char *const names[] = {"ATTEST_ALLOW_SLOW", "ATTEST_JIT"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        att_context *ctx;
        const att_context_options options = cpu_options();
        setenv(names[i], "1", 1);
        assert_ok(att_context_create(&ctx, &options));
        att_context_destroy(ctx);
        setenv(names[i], "maybe", 1);
        refuse(&options, ATT_E_ARG, names[i], "maybe");
        unsetenv(names[i]);
    }
}

static void test_context__unknown_values__named(void **state) {
    (void)state;
    att_context_options options = cpu_options();
    options.device = (att_device)3;
    refuse(&options, ATT_E_ARG, "device", "3");
    options = cpu_options();
    options.device = (att_device)-1;
    refuse(&options, ATT_E_ARG, "device", "-1");
    options = cpu_options();
    options.isa = (att_isa)7;
    refuse(&options, ATT_E_ARG, "isa", "7");
    options = cpu_options();
    options.isa = (att_isa)-1;
    refuse(&options, ATT_E_ARG, "isa", "-1");
    options = cpu_options();
    options.threads = -1;
    refuse(&options, ATT_E_ARG, "threads", "-1");
    options = cpu_options();
    options.threads = INT32_MAX;
    refuse(&options, ATT_E_ARG, "threads", "threads");
    options = cpu_options();
    options.flags = 16;
    refuse(&options, ATT_E_ARG, "flags", "flags");
    options = cpu_options();
    options.device_index = -1;
    refuse(&options, ATT_E_DEVICE, "device_index", "-1");
    options.device = ATT_DEVICE_AUTO;
    options.device_index = 1;
    refuse(&options, ATT_E_DEVICE, "device_index", "1");
}

typedef struct newer_options {
    att_context_options known;
    uint64_t added;
} newer_options;

static void test_context__struct_sizes__known_or_refused(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, sizeof(size_t), sizeof(att_context_options) - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        att_context_options options = cpu_options();
        options.size = sizes[i];
        refuse(&options, ATT_E_STRUCT, "size", "size");
    }
    newer_options newer = {.known = cpu_options(), .added = 1};
    newer.known.size = sizeof newer;
    refuse(&newer.known, ATT_E_STRUCT, "size", "does not know");
    newer.added = 0;
    att_context *ctx;
    assert_ok(att_context_create(&ctx, &newer.known));
    att_context_destroy(ctx);

    att_context_options older = cpu_options(); /* the struct of 0.1, which had no `kernel` */
    older.size = offsetof(att_context_options, kernel);
    older.kernel = "beyond what the caller knows";
    assert_ok(att_context_create(&ctx, &older));
    att_context_info info;
    memset(&info, 0x5a, sizeof info);
    info.size = offsetof(att_context_info, memory_bytes);
    assert_ok(att_context_query(ctx, &info));
    assert_int_equal(info.size, offsetof(att_context_info, memory_bytes));
    assert_int_equal(info.device, ATT_DEVICE_CPU);
    assert_int_equal(info.memory_bytes, 0x5a5a5a5a5a5a5a5a);
    att_context_destroy(ctx);
}

static void test_context__null_out__named(void **state) {
    (void)state;
    assert_fails(att_context_create(NULL, NULL), ATT_E_ARG, "out", "out");
}

static void test_context__environment_isa__obeyed_by_auto_alone(void **state) {
    (void)state;
    setenv("ATTEST_ISA", "portable", 1);
    att_context *ctx = context_open(ATT_ISA_AUTO, 1);
    assert_int_equal(info_of(ctx).isa, ATT_ISA_PORTABLE);
    att_context_destroy(ctx);
    const att_isa top = machine_isa();
    ctx = context_open(top, 1);
    assert_int_equal(info_of(ctx).isa, top);
    att_context_destroy(ctx);
    unsetenv("ATTEST_ISA");
}

static void test_context__environment_isa_unknown__named(void **state) {
    (void)state;
    static const char *const bad[] = {"sse", "AVX2 ", "avx", "avx5120", "4", "portable,avx2"};
    const att_context_options options = cpu_options();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("ATTEST_ISA", bad[i], 1);
        refuse(&options, ATT_E_ARG, "ATTEST_ISA", bad[i]);
    }
    unsetenv("ATTEST_ISA");
}

static void test_context__environment_threads__default_count(void **state) {
    (void)state;
    setenv("ATTEST_THREADS", "3", 1);
    att_context *ctx = context_open(ATT_ISA_AUTO, 0);
    assert_int_equal(info_of(ctx).threads, 3);
    att_context_destroy(ctx);
    ctx = context_open(ATT_ISA_AUTO, 2);
    assert_int_equal(info_of(ctx).threads, 2);
    att_context_destroy(ctx);
    unsetenv("ATTEST_THREADS");
}

static void test_context__environment_threads_bad__named(void **state) {
    (void)state;
    static const char *const bad[] = {"0",   "-1", "two", "3x",        "99999999999999999999",
                                      "1.5", " ",  "2 2", "2147483648"};
    const att_context_options options = cpu_options();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("ATTEST_THREADS", bad[i], 1);
        refuse(&options, ATT_E_ARG, "ATTEST_THREADS", "ATTEST_THREADS");
    }
    unsetenv("ATTEST_THREADS");
}

/* The kernel for a float32 problem of many rows. */
static const char *f32_kernel(att_context *ctx) {
    att_problem p;
    att_problem_init(&p, 1, 1, 1, 64, 64, 64, 64, ATT_F32);
    att_plan *plan;
    assert_ok(att_plan_create(&plan, ctx, &p));
    const char *id = att_plan_kernel(plan);
    att_plan_destroy(plan);
    return id;
}

static void test_context__amx_f32__by_flag_or_environment_only(void **state) {
    (void)state;
    const bool has_amx = machine_isa() == ATT_ISA_AMX;
    for (int by_flag = 0; by_flag < 2; by_flag++) {
        for (int by_environment = -1; by_environment < 2; by_environment++) {
            att_context_options options = cpu_options();
            options.isa = machine_isa(); /* emulated tiles are used only on request */
            options.flags = by_flag ? ATT_AMX_F32 : 0;
            if (by_environment >= 0)
                setenv("ATTEST_AMX_F32", by_environment ? "1" : "0", 1);
            att_context *ctx;
            assert_ok(att_context_create(&ctx, &options));
            const bool on_amx = strcmp(f32_kernel(ctx), "fwd_cpu_amx") == 0;
            assert_int_equal(on_amx, has_amx && (by_flag || by_environment == 1));
            att_context_destroy(ctx);
            unsetenv("ATTEST_AMX_F32");
        }
    }
}

static void test_context__environment_amx_f32_bad__named(void **state) {
    (void)state;
    static const char *const bad[] = {"2", "yes", "01", " "};
    const att_context_options options = cpu_options();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("ATTEST_AMX_F32", bad[i], 1);
        refuse(&options, ATT_E_ARG, "ATTEST_AMX_F32", "ATTEST_AMX_F32");
    }
}

static void test_context_query__bad_arguments__named(void **state) {
    (void)state;
    att_context *ctx = context_open(ATT_ISA_AUTO, 1);
    att_context_info info = {.size = sizeof info};
    assert_fails(att_context_query(NULL, &info), ATT_E_ARG, "ctx", "ctx");
    assert_fails(att_context_query(ctx, NULL), ATT_E_ARG, "info", "info");
    info.size = 4;
    assert_fails(att_context_query(ctx, &info), ATT_E_STRUCT, "size", "size");
    info.size = sizeof info - 1;
    assert_fails(att_context_query(ctx, &info), ATT_E_STRUCT, "size", "size");
    att_context_destroy(ctx);
}

static void test_context_destroy__null__fine(void **state) {
    (void)state;
    att_context_destroy(NULL);
}

static void test_context_destroy__before_its_plans__plans_still_run(void **state) {
    (void)state;
    const long live = att_alloc_live();
    att_context *ctx = context_open(ATT_ISA_AUTO, 2);
    const att_problem p = problem_single(4, 4, 8, ATT_F32);
    att_plan *first, *second;
    assert_ok(att_plan_create(&first, ctx, &p));
    assert_ok(att_plan_create(&second, ctx, &p));
    att_context_destroy(ctx);
    att_plan_destroy(first);
    float q[32] = {0}, k[32] = {0}, v[32], o[32];
    for (int i = 0; i < 32; i++)
        v[i] = 2.5f;
    const att_args args = {.size = sizeof args, .q = q, .k = k, .v = v, .o = o};
    const size_t bytes = att_plan_workspace(second);
    void *workspace = bytes ? att_alloc(bytes) : NULL;
    assert_ok(att_plan_run(second, &args, workspace, NULL));
    for (int i = 0; i < 32; i++)
        assert_true(o[i] == 2.5f);
    att_free(workspace);
    att_plan_destroy(second);
    assert_int_equal(att_alloc_live(), live);
}

/* A test that fails midway must not leave its environment to the next. */
static int clean_environment(void **state) {
    (void)state;
    unsetenv("ATTEST_ISA");
    unsetenv("ATTEST_THREADS");
    unsetenv("ATTEST_AMX_F32");
    unsetenv("ATTEST_DEVICE");
    unsetenv("ATTEST_KERNEL");
    unsetenv("ATTEST_ALLOW_SLOW");
    unsetenv("ATTEST_JIT");
    setenv("ATTEST_LIBCUDA", "/nonexistent/libcuda.so.1",
           1); /* as on a machine without a GPU */
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, clean_environment)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_context__rows_on_a_cpu__checked_all_the_same),
        TEST(test_context__no_options__opens_with_defaults),
        TEST(test_context__options__obeyed),
        TEST(test_context__each_isa_of_the_machine__obeyed),
        TEST(test_context__isa_that_the_machine_lacks__device_error),
        TEST(test_isa__includes__its_own_processor_only),
        TEST(test_isa__names__parsed_back),
        TEST(test_context__cuda_without_one__device_error),
        TEST(test_context__environment_device__obeyed_by_auto_alone),
        TEST(test_context__switches_of_the_environment__zero_or_one),
        TEST(test_context__unknown_values__named),
        TEST(test_context__struct_sizes__known_or_refused),
        TEST(test_context__null_out__named),
        TEST(test_context__environment_isa__obeyed_by_auto_alone),
        TEST(test_context__environment_isa_unknown__named),
        TEST(test_context__environment_threads__default_count),
        TEST(test_context__environment_threads_bad__named),
        TEST(test_context__amx_f32__by_flag_or_environment_only),
        TEST(test_context__environment_amx_f32_bad__named),
        TEST(test_context_query__bad_arguments__named),
        TEST(test_context_destroy__null__fine),
        TEST(test_context_destroy__before_its_plans__plans_still_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
