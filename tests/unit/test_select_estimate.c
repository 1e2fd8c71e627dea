/* test_select_estimate.c: the rows that support a problem compete by the time that their
 * families predict. On an H200 that the selector sees through its limits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/cuda/hopper_choice.h"
#include "core/select.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"
#include "tests/support/rng.h"

static const att_cuda_limits h200 = {
    .cc = 90, .sms = 132, .shared_per_block = 227 << 10, .shared_per_sm = 228 << 10};

static att_limits limits_of(const char *kernel) {
    att_limits limits = {.device = ATT_DEVICE_CUDA, .gpu = &h200};
    snprintf(limits.kernel, sizeof limits.kernel, "%s", kernel);
    return limits;
}

static att_problem problem(int64_t batch, int64_t heads, int64_t seq_q, int64_t seq_k,
                           int64_t d_qk, int64_t d_v, att_dtype dtype) {
    att_problem p;
    att_problem_init(&p, batch, heads, heads, seq_q, seq_k, d_qk, d_v, dtype);
    return p;
}

static const att_kernel_row *find(const att_limits *limits, const att_problem *p) {
    return att_select_find(limits, &att_operation_attention, p);
}

static bool serves(const att_kernel_row *row, const att_limits *limits, const att_problem *p) {
    att_refusal refusal;
    return row->device == limits->device &&
           att_row_serves(row, limits, &att_operation_attention, p, &refusal);
}

static double estimate(const att_kernel_row *row, const att_limits *limits,
                       const att_problem *p) {
    return row->family->estimate ? row->family->estimate(row, limits, p) : -1.0;
}

static size_t place_of(const att_kernel_row *row) {
    size_t i = 0;
    while (att_registry_row(i) != row)
        i++;
    return i;
}

static const att_kernel_row *first_of(const att_limits *limits, const att_problem *p) {
    size_t i = 0;
    while (i < att_registry_count() && !serves(att_registry_row(i), limits, p))
        i++;
    return i < att_registry_count() ? att_registry_row(i) : NULL;
}

/* No row that supports the problem and has a comparable estimate is faster; none that is as
 * fast comes first. If times are unknown, the first supporting row is chosen. */
static void assert_soonest(const att_limits *limits, const att_problem *p,
                           const att_kernel_row *chosen) {
    const att_kernel_row *first = first_of(limits, p);
    assert_non_null(first);
    const double own = estimate(chosen, limits, p);
    if (estimate(first, limits, p) < 0.0) {
        assert_ptr_equal(chosen, first);
        return;
    }
    assert_true(serves(chosen, limits, p));
    assert_true(own >= 0.0 && chosen->family->estimate == first->family->estimate);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (row->family->estimate != first->family->estimate || !serves(row, limits, p))
            continue;
        const double other = estimate(row, limits, p);
        if (other >= 0.0 && (other < own || (other == own && i < place_of(chosen))))
            fail_msg("%s at %g is chosen, not %s at %g", chosen->id, own, row->id, other);
    }
}

static int64_t one_of(uint64_t *r, const int64_t *list, size_t count) {
    return list[rng_next(r) % count];
}

static att_problem random_problem(uint64_t *r) {
    static const int64_t batches[] = {1, 2, 4, 16}, heads[] = {1, 4, 8, 16, 32},
                         rows[] = {17, 64, 100, 128, 500, 1024, 2200, 4096, 16384},
                         keys[] = {0, 1, 64, 65, 512, 1000, 4096, 16384},
                         dims[] = {40, 64, 72, 96, 104, 128, 192, 256};
    const int64_t d = one_of(r, dims, 8);
    att_problem p = problem(one_of(r, batches, 4), one_of(r, heads, 5), one_of(r, rows, 9),
                            one_of(r, keys, 8), d, rng_next(r) % 8 ? d : 64,
                            rng_next(r) % 2 ? ATT_F16 : ATT_BF16);
    p.causal = rng_next(r) % 2 ? ATT_CAUSAL_TOP_LEFT : ATT_CAUSAL_NONE;
    if (rng_next(r) % 8 == 0)
        p.window_left = 100;
    if (rng_next(r) % 8 == 0)
        p.softcap = 20.0f;
    if (rng_next(r) % 4 == 0) {
        p.features |= ATT_PAGED;
        p.page_size = rng_next(r) % 2 ? 16 : 64;
        p.num_pages = 4096;
    }
    return p;
}

static void test_estimate__any_problem__the_least_of_those_that_serve(void **state) {
    (void)state;
    static const char *const patterns[] = {"", "fwd_sm90*", "fwd_sm90_bf16*", "fwd_sm80*"};
    uint64_t r = 11;
    size_t later = 0, untimed = 0, chosen_count = 0;
    bool chosen_once[512] = {false};
    assert_true(att_registry_count() <= sizeof chosen_once);
    for (int i = 0; i < 4000; i++) {
        const att_limits limits = limits_of(patterns[i % 4]);
        const att_problem p = random_problem(&r);
        const att_kernel_row *chosen = find(&limits, &p), *first = first_of(&limits, &p);
        assert_int_equal(chosen != NULL, first != NULL);
        if (!chosen)
            continue;
        assert_true(!limits.kernel[0] || att_kernel_matches(chosen->id, limits.kernel));
        assert_soonest(&limits, &p, chosen);
        later += chosen != first;
        untimed += estimate(first, &limits, &p) < 0.0;
        chosen_count += !chosen_once[place_of(chosen)];
        chosen_once[place_of(chosen)] = true;
    }
    /* The problems are chosen so that every case occurs. */
    assert_true(later > 400 && untimed > 400 && chosen_count > 40);
}

static void test_estimate__equal__the_earlier_row(void **state) {
    (void)state;
    const att_limits limits = limits_of("");
    const att_problem p = problem(2, 16, 4096, 1000, 96, 96, ATT_BF16);
    const att_kernel_row *d96 = gpu_row_named("fwd_sm90_bf16_d96_m128n128s2"),
                         *d128 = gpu_row_named("fwd_sm90_bf16_d128_m128n128s2");
    assert_true(place_of(d96) < place_of(d128));
    assert_true(serves(d128, &limits, &p));
    assert_true(estimate(d96, &limits, &p) == estimate(d128, &limits, &p));
    assert_ptr_equal(find(&limits, &p), d96);
}

/* No row of these widths has times, nor has any that changes scores. */
static void test_estimate__unknown__the_first_row(void **state) {
    (void)state;
    const att_limits limits = limits_of("");
    static const struct {
        int64_t d_qk, d_v;
        float softcap;
        const char *chosen;
    } cases[] = {{192, 192, 0.0f, "fwd_sm90_f16_d192_m128n96s2"},
                 {192, 128, 0.0f, "fwd_sm90_f16_d192v128_m128n112s2"},
                 {128, 128, 20.0f, "fwd_sm90_f16_d128_softcap_m192n80s3"},
                 {192, 192, 20.0f, "fwd_sm90_f16_d192_general_m128n64s2"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int64_t rows = 64; rows <= 16384; rows *= 4) {
            att_problem p = problem(1, 8, rows, 3000, cases[i].d_qk, cases[i].d_v, ATT_F16);
            p.softcap = cases[i].softcap;
            const att_kernel_row *chosen = find(&limits, &p);
            assert_string_equal(chosen->id, cases[i].chosen);
            assert_ptr_equal(chosen, first_of(&limits, &p));
            assert_true(estimate(chosen, &limits, &p) < 0.0);
        }
}

/* Only matching rows are compared: the fastest of them, even if another would be faster. */
static void test_estimate__kernel_pattern__limits_the_competition(void **state) {
    (void)state;
    const att_problem few = problem(1, 8, 128, 500, 128, 128, ATT_BF16),
                      narrow = problem(2, 16, 4096, 1000, 96, 96, ATT_BF16);
    static const char *const small = "fwd_sm90_small_bf16_d128_m64n64s2w8";
    att_limits limits = limits_of("");
    const att_kernel_row *soonest = find(&limits, &few);
    assert_string_equal(soonest->id, small);
    static const struct {
        const char *pattern, *chosen;
    } cases[] = {{"fwd_sm90*", "fwd_sm90_small_bf16_d128_m64n64s2w8"},
                 {"fwd_sm90_bf16*", "fwd_sm90_bf16_d128_m128n128s2"},
                 {"fwd_sm90_bf16_d128_m192*", "fwd_sm90_bf16_d128_m192n80s3"},
                 {"fwd_sm80*", "fwd_sm80_bf16_d128_m64n64s2"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        limits = limits_of(cases[i].pattern);
        const att_kernel_row *chosen = find(&limits, &few);
        assert_string_equal(chosen->id, cases[i].chosen);
        assert_soonest(&limits, &few, chosen);
    }
    /* Passed over because of its times, and yet the only one. */
    limits = limits_of("fwd_sm90_bf16_d128_m192*");
    const att_kernel_row *wide = find(&limits, &narrow);
    assert_non_null(wide);
    assert_true(isinf(estimate(wide, &limits, &narrow)));
}

static void assert_line(const char *text, const char *verdict, const char *id,
                        const char *words) {
    char line[160];
    snprintf(line, sizeof line, "%-8s %-32s %s\n", verdict, id, words);
    if (!strstr(text, line))
        fail_msg("no line \"%s\" in\n%s", line, text);
}

static void test_estimate__explained__who_was_compared(void **state) {
    (void)state;
    const att_limits limits = limits_of("");
    const att_problem p = problem(1, 8, 128, 500, 128, 128, ATT_BF16);
    char text[ATT_EXPLAIN_MAX];
    att_select_explain(&limits, &att_operation_attention, &p, "so", text, sizeof text);
    static const char *const sooner = "serves it too, but is not expected to be faster",
                             *const below = "serves it too, but is listed after the chosen one";
    assert_line(text, "chosen", "fwd_sm90_small_bf16_d128_m64n64s2w8", "so");
    assert_line(text, "passed", "fwd_sm90_bf16_d128_m128n128s2", sooner);
    assert_line(text, "passed", "fwd_sm90_bf16_d128_m192n80s3", sooner);
    assert_line(text, "passed", "fwd_sm90_bf16_d128_general_m128n64s2", below); /* no times */
    assert_line(text, "passed", "fwd_sm80_bf16_d128_m64n64s2", below); /* another estimate */
}

/* ----------------------------------------------------------------------------- kernels.def */

typedef struct timed {
    const char *id;
    att_row_times times;
} timed;

static const timed listed[] = {
#define ATT_TIMES(kernel, ...) {#kernel, {__VA_ARGS__}},
#include "kernels/kernels.def"
};
enum { LISTED = sizeof listed / sizeof listed[0] };

static void test_times__each_listed__a_gpu_row_whose_family_estimates(void **state) {
    (void)state;
    const att_limits limits = limits_of("");
    for (size_t i = 0; i < LISTED; i++) {
        const att_kernel_row *row = gpu_row_named(listed[i].id);
        const att_row_times *t = &row->times, *wanted = &listed[i].times;
        assert_true(t->start == wanted->start && t->tile == wanted->tile &&
                    t->cut == wanted->cut && t->key == wanted->key &&
                    t->least == wanted->least);
        if (!(t->start >= 0 && t->tile > 0 && t->cut >= 0 && t->key > 0.0 && t->least >= 1 &&
              t->least <= row->cuda->d_qk))
            fail_msg("the times of %s are none", row->id);
        if (!row->family->estimate)
            fail_msg("nothing reads the times of %s", row->id);
        const att_problem p =
            problem(1, 8, 1000, 1000, row->cuda->d_qk, row->cuda->d_v, row->cuda->dtype);
        assert_true(serves(row, &limits, &p));
        const double time = estimate(row, &limits, &p);
        assert_true(time > 0.0 && !isinf(time));
        for (size_t other = 0; other < i; other++)
            assert_string_not_equal(listed[other].id, listed[i].id);
    }
}

static void test_times__rows_of_a_family_that_reads_them__all_have_some(void **state) {
    (void)state;
    size_t timed_count = 0;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        timed_count += row->times.tile != 0;
        if (row->family->estimate != att_cuda_hopper_estimate)
            continue;
        const bool wanted = row->cuda->role != ATT_ROLE_GENERAL && !row->cuda->features &&
                            row->cuda->role != ATT_ROLE_DECODE &&
                            row->cuda->d_qk == row->cuda->d_v && row->cuda->d_qk <= 128;
        if (wanted && row->times.tile == 0)
            fail_msg("%s has no times: it cannot compete with the other tiles of its width",
                     row->id);
    }
    assert_int_equal(timed_count, LISTED);
}

int main(void) {
    use_fake_nvrtc(); /* so that rows without machine code count as compilable */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimate__any_problem__the_least_of_those_that_serve),
        cmocka_unit_test(test_estimate__equal__the_earlier_row),
        cmocka_unit_test(test_estimate__unknown__the_first_row),
        cmocka_unit_test(test_estimate__kernel_pattern__limits_the_competition),
        cmocka_unit_test(test_estimate__explained__who_was_compared),
        cmocka_unit_test(test_times__each_listed__a_gpu_row_whose_family_estimates),
        cmocka_unit_test(test_times__rows_of_a_family_that_reads_them__all_have_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
