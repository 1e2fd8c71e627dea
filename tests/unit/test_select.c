/* test_select.c: the named kernel is the kernel that runs, and every other one says why not. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"

/* The kernels of the library, as a context reports them. */
static att_kernel_info kernel_at(att_context *ctx, size_t i) {
    att_kernel_info info = {.size = sizeof info};
    assert_ok(att_kernel_query(ctx, i, &info));
    return info;
}

/* One line of an explanation: a verdict, a kernel id, a reason. */
typedef struct line {
    char verdict[16], id[64], reason[256];
} line;

/* Lines of `text` about the kernel `id`; the last of them into *out. */
static int lines_about(const char *text, const char *id, line *out) {
    int found = 0;
    for (const char *at = text; *at;) {
        line l = {"", "", ""};
        sscanf(at, "%15s %63s %255[^\n]", l.verdict, l.id, l.reason);
        if (strcmp(l.id, id) == 0) {
            found++;
            *out = l;
        }
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return found;
}

static bool is_attention(const att_kernel_info *info) {
    return strcmp(info->operation, "attention") == 0;
}

/* Every attention kernel of the CPU has exactly one line with a reason, and `chosen` (NULL:
 * none) is the one chosen. */
static void check_explanation(const char *text, att_context *ctx, const char *chosen) {
    size_t lines = 0, rows = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    for (size_t k = 0; k < att_kernel_count(); k++) {
        const att_kernel_info info = kernel_at(ctx, k);
        const char *id = info.id;
        line l;
        if (info.device != ATT_DEVICE_CPU || !is_attention(&info)) {
            assert_int_equal(lines_about(text, id, &l), 0);
            continue;
        }
        rows++;
        assert_int_equal(lines_about(text, id, &l), 1);
        assert_true(l.reason[0] != '\0');
        assert_int_equal(strcmp(l.verdict, "chosen") == 0, chosen && strcmp(id, chosen) == 0);
    }
    assert_int_equal(lines, rows);
}

/* Problems that between them reach every kernel: tiles, decode, each dtype. */
static size_t sample_problems(att_problem *out) {
    static const att_dtype dtypes[] = {ATT_F32, ATT_F16, ATT_BF16};
    static const int64_t rows[] = {1, 2, 7, 64, 200};
    size_t n = 0;
    for (size_t d = 0; d < 3; d++)
        for (size_t r = 0; r < 5; r++)
            att_problem_init(&out[n++], 2, 4, 2, rows[r], 100, 32, 48, dtypes[d]);
    return n;
}

static void test_kernel__named_by_the_plan__is_the_one_that_ran(void **state) {
    engines *e = *state;
    att_problem problems[16];
    const size_t n = sample_problems(problems);
    for (int i = 0; i < e->count; i++)
        for (size_t p = 0; p < n; p++) {
            fixture f;
            att_plan *plan;
            char named[64];
            assert_ok(att_plan_create(&plan, e->ctx[i], &problems[p]));
            snprintf(named, sizeof named, "%s", att_plan_kernel(plan));
            att_plan_destroy(plan);
            fixture_open(&f, &problems[p], 7);
            fixture_run_ok(&f, e->ctx[i]);
            assert_non_null(f.launch.kernel);
            assert_string_equal(f.launch.kernel, named);
            assert_true(f.launch.grid[0] > 0 && f.launch.grid[1] > 0 && f.launch.grid[2] == 1);
            assert_true(f.launch.block[0] >= 1 && f.launch.block[0] <= ENGINES_THREADS);
            assert_true(f.launch.block[1] == 1 && f.launch.block[2] == 1);
            assert_int_equal(f.launch.registers, 0);
            assert_string_equal(f.launch.code_sha256, "");
            fixture_close(&f);
        }
}

static void test_kernel__named_by_the_plan__is_within_the_instruction_set(void **state) {
    engines *e = *state;
    att_problem problems[16];
    const size_t n = sample_problems(problems);
    for (int i = 0; i < e->count; i++)
        for (size_t p = 0; p < n; p++) {
            att_plan *plan;
            assert_ok(att_plan_create(&plan, e->ctx[i], &problems[p]));
            int matches = 0;
            for (size_t k = 0; k < att_kernel_count(); k++) {
                const att_kernel_info info = kernel_at(e->ctx[i], k);
                if (strcmp(info.id, att_plan_kernel(plan)) != 0)
                    continue;
                matches++;
                assert_int_equal(info.available, 1);
                assert_true(info.isa <= e->isa[i]);
            }
            assert_int_equal(matches, 1);
            att_plan_destroy(plan);
        }
}

/* Every kernel that this machine can run is reached by one of the sample problems at its own
 * level. */
static void test_kernel__each_available__serves_some_problem(void **state) {
    engines *e = *state;
    att_problem problems[16];
    const size_t n = sample_problems(problems);
    for (size_t k = 0; k < att_kernel_count(); k++) {
        const att_kernel_info info = kernel_at(e->ctx[e->count - 1], k);
        if (!info.available || !is_attention(&info))
            continue;
        bool reached = false;
        for (int i = 0; i < e->count && !reached; i++)
            for (size_t p = 0; p < n && !reached; p++) {
                att_plan *plan;
                assert_ok(att_plan_create(&plan, e->ctx[i], &problems[p]));
                reached = strcmp(att_plan_kernel(plan), info.id) == 0;
                att_plan_destroy(plan);
            }
        if (!reached)
            fail_msg("nothing is served by %s", info.id);
    }
}

static void test_explain__any_problem__every_kernel_once_with_a_reason(void **state) {
    engines *e = *state;
    att_problem problems[16];
    const size_t n = sample_problems(problems);
    char text[ATT_EXPLAIN_MAX], again[ATT_EXPLAIN_MAX];
    for (int i = 0; i < e->count; i++)
        for (size_t p = 0; p < n; p++) {
            att_plan *plan;
            assert_ok(att_plan_create(&plan, e->ctx[i], &problems[p]));
            assert_ok(att_plan_explain(plan, text, sizeof text));
            assert_ok(att_context_explain(e->ctx[i], &problems[p], again, sizeof again));
            assert_string_equal(text, again);
            check_explanation(text, e->ctx[i], att_plan_kernel(plan));
            att_plan_destroy(plan);
        }
}

static void test_explain__nothing_serves__every_kernel_refused_by_its_field(void **state) {
    engines *e = *state;
    att_problem p = problem_single(4, 4, 300, ATT_F32);
    char text[ATT_EXPLAIN_MAX];
    for (int i = 0; i < e->count; i++) {
        att_plan *plan;
        assert_ok(att_context_explain(e->ctx[i], &p, text, sizeof text));
        assert_non_null(strstr(text, "d_qk"));
        check_explanation(text, e->ctx[i], NULL);
        assert_fails(att_plan_create(&plan, e->ctx[i], &p), ATT_E_UNSUPPORTED, "d_qk", "300");
    }
}

static void test_explain__nothing_serves__last_error_as_it_was(void **state) {
    engines *e = *state;
    att_problem p = problem_single(4, 4, 300, ATT_F32);
    char text[ATT_EXPLAIN_MAX];
    assert_fails(att_context_explain(e->ctx[0], &p, NULL, 0), ATT_E_ARG, "buf", "buf");
    assert_ok(att_context_explain(e->ctx[0], &p, text, sizeof text));
    assert_int_equal(att_last_error()->status, ATT_E_ARG);
}

/* explain and create agree, over problems inside and outside the supported space. */
static void test_explain__supported_and_not__agrees_with_dispatch(void **state) {
    engines *e = *state;
    static const int64_t dims[] = {1, 8, 255, 256, 257, 512};
    static const att_dtype dtypes[] = {ATT_F32, ATT_F16, ATT_BF16};
    char text[ATT_EXPLAIN_MAX];
    for (int i = 0; i < e->count; i++)
        for (size_t a = 0; a < 6; a++)
            for (size_t b = 0; b < 6; b++)
                for (size_t t = 0; t < 3; t++) {
                    att_problem p;
                    att_problem_init(&p, 1, 2, 1, 3, 9, dims[a], dims[b], dtypes[t]);
                    assert_ok(att_context_explain(e->ctx[i], &p, text, sizeof text));
                    att_plan *plan;
                    const att_status status = att_plan_create(&plan, e->ctx[i], &p);
                    assert_int_equal(
                        status, dims[a] <= 256 && dims[b] <= 256 ? ATT_OK : ATT_E_UNSUPPORTED);
                    const bool served = status == ATT_OK;
                    check_explanation(text, e->ctx[i], served ? att_plan_kernel(plan) : NULL);
                    att_plan_destroy(plan);
                }
}

static void test_explain__short_buffer__cut_and_terminated(void **state) {
    engines *e = *state;
    const att_problem p = problem_with(0, ATT_F32);
    char whole[ATT_EXPLAIN_MAX], part[ATT_EXPLAIN_MAX];
    att_plan *plan;
    assert_ok(att_plan_create(&plan, e->ctx[0], &p));
    assert_ok(att_plan_explain(plan, whole, sizeof whole));
    const size_t length = strlen(whole);
    for (size_t n = 1; n <= length + 1; n += n < 40 ? 1 : 37) {
        memset(part, '#', sizeof part);
        assert_ok(att_plan_explain(plan, part, n));
        assert_int_equal(strlen(part), n - 1 < length ? n - 1 : length);
        assert_memory_equal(part, whole, strlen(part));
        assert_int_equal(part[n], '#');
    }
    att_plan_destroy(plan);
}

static void test_kernel_query__bad_arguments__named(void **state) {
    engines *e = *state;
    att_kernel_info info = {.size = sizeof info};
    assert_fails(att_kernel_query(NULL, 0, &info), ATT_E_ARG, "ctx", "ctx");
    assert_fails(att_kernel_query(e->ctx[0], 0, NULL), ATT_E_ARG, "info", "info");
    assert_fails(att_kernel_query(e->ctx[0], att_kernel_count(), &info), ATT_E_ARG, "i", "i=");
    assert_fails(att_kernel_query(e->ctx[0], SIZE_MAX, &info), ATT_E_ARG, "i", "i=");
    info.size = 1;
    assert_fails(att_kernel_query(e->ctx[0], 0, &info), ATT_E_STRUCT, "size", "size");
}

static void test_kernel_query__each__whole_and_unique(void **state) {
    engines *e = *state;
    static const char *const wanted[] = {
        "fwd_cpu_portable",  "fwd_cpu_avx2",   "fwd_cpu_avx512",      "fwd_cpu_avx512_bf16",
        "fwd_cpu_amx",       "fwd_cpu_neon",   "decode_cpu_portable", "decode_cpu_avx2",
        "decode_cpu_avx512", "decode_cpu_neon"};
    const size_t count = att_kernel_count();
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
        int found = 0;
        for (size_t k = 0; k < count; k++)
            found += strcmp(kernel_at(e->ctx[0], k).id, wanted[w]) == 0;
        assert_int_equal(found, 1);
    }
    for (size_t k = 0; k < count; k++) {
        const att_kernel_info info = kernel_at(e->ctx[0], k);
        assert_true(info.summary[0] != '\0');
        assert_true(info.role[0] != '\0');
        assert_true(info.operation[0] != '\0');
        assert_true(!is_attention(&info) || (info.d_qk >= 1 && info.d_v >= 1));
        if (info.device == ATT_DEVICE_CPU) {
            assert_int_equal(info.available, info.isa <= ATT_ISA_PORTABLE);
            assert_int_equal(info.origin, ATT_FROM_LIBRARY);
        } else {
            assert_int_equal(info.device, ATT_DEVICE_CUDA);
            assert_int_equal(info.available, 0);
            assert_true(info.targets[0] >= 80 && info.warps >= 1);
            assert_int_equal(info.rung, strcmp(info.role, "rung") == 0);
        }
        for (size_t other = 0; other < k; other++)
            assert_string_not_equal(kernel_at(e->ctx[0], other).id, info.id);
    }
}

/* A context restricted to one kernel runs that one or none. */
static void test_kernel__forced__serves_alone(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *chosen; /* NULL: nothing serves */
    } cases[] = {
        {"fwd_cpu_portable", "fwd_cpu_portable"},
        {"decode_cpu_portable", NULL},
        {"*portable", NULL},
        {"fwd_cpu_p*", "fwd_cpu_portable"},
    };
    const att_problem p = problem_single(100, 100, 32, ATT_F32);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        att_context_options options = {
            .size = sizeof options, .device = ATT_DEVICE_CPU, .threads = 1};
        options.kernel = cases[i].pattern;
        att_context *ctx;
        att_plan *plan;
        if (strcmp(cases[i].pattern, "*portable") == 0) { /* a * in front is no pattern */
            assert_fails(att_context_create(&ctx, &options), ATT_E_ARG, "kernel", "*portable");
            continue;
        }
        assert_ok(att_context_create(&ctx, &options));
        if (cases[i].chosen) {
            assert_ok(att_plan_create(&plan, ctx, &p));
            assert_string_equal(att_plan_kernel(plan), cases[i].chosen);
            char text[ATT_EXPLAIN_MAX];
            assert_ok(att_plan_explain(plan, text, sizeof text));
            assert_non_null(strstr(text, "kernel: only fwd_cpu_p"));
            check_explanation(text, ctx, cases[i].chosen);
            att_plan_destroy(plan);
        } else {
            assert_fails(att_plan_create(&plan, ctx, &p), ATT_E_UNSUPPORTED, "seq_q",
                         cases[i].pattern);
        }
        att_context_destroy(ctx);
    }
}

/* AVX512-BF16 multiplies only bfloat16: the other types stay with FMA, and the message says
 * why. */
static void test_kernel__avx512_bf16__serves_bfloat16_alone(void **state) {
    engines *e = *state;
    static const att_dtype dtypes[] = {ATT_BF16, ATT_F16, ATT_F32};
    for (int i = 0; i < e->count; i++)
        for (int d = 0; d < 3 && e->isa[i] == ATT_ISA_AVX512_BF16; d++) {
            const att_problem p = problem_single(100, 100, 32, dtypes[d]);
            const bool bf16 = dtypes[d] == ATT_BF16;
            char text[ATT_EXPLAIN_MAX];
            att_plan *plan;
            assert_ok(att_plan_create(&plan, e->ctx[i], &p));
            assert_string_equal(att_plan_kernel(plan),
                                bf16 ? "fwd_cpu_avx512_bf16" : "fwd_cpu_avx512");
            assert_ok(att_plan_explain(plan, text, sizeof text));
            assert_int_equal(
                strstr(text, "dtype: only bf16 is multiplied by AVX512-BF16") != NULL, !bf16);
            att_plan_destroy(plan);
        }
}

static void test_kernel__forced_by_environment__obeyed_or_named(void **state) {
    (void)state;
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CPU};
    const att_problem p = problem_single(100, 100, 32, ATT_F32);
    att_context *ctx;
    att_plan *plan;
    setenv("ATTEST_KERNEL", "fwd_cpu_portable", 1);
    assert_ok(att_context_create(&ctx, &options));
    assert_ok(att_plan_create(&plan, ctx, &p));
    assert_string_equal(att_plan_kernel(plan), "fwd_cpu_portable");
    att_plan_destroy(plan);
    att_context_destroy(ctx);
    setenv("ATTEST_KERNEL", "fwd_cpu_none", 1);
    assert_fails(att_context_create(&ctx, &options), ATT_E_ARG, "ATTEST_KERNEL",
                 "fwd_cpu_none");
    unsetenv("ATTEST_KERNEL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel__named_by_the_plan__is_the_one_that_ran),
        cmocka_unit_test(test_kernel__named_by_the_plan__is_within_the_instruction_set),
        cmocka_unit_test(test_kernel__each_available__serves_some_problem),
        cmocka_unit_test(test_explain__any_problem__every_kernel_once_with_a_reason),
        cmocka_unit_test(test_explain__nothing_serves__every_kernel_refused_by_its_field),
        cmocka_unit_test(test_explain__nothing_serves__last_error_as_it_was),
        cmocka_unit_test(test_explain__supported_and_not__agrees_with_dispatch),
        cmocka_unit_test(test_explain__short_buffer__cut_and_terminated),
        cmocka_unit_test(test_kernel_query__bad_arguments__named),
        cmocka_unit_test(test_kernel_query__each__whole_and_unique),
        cmocka_unit_test(test_kernel__forced__serves_alone),
        cmocka_unit_test(test_kernel__avx512_bf16__serves_bfloat16_alone),
        cmocka_unit_test(test_kernel__forced_by_environment__obeyed_or_named),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
