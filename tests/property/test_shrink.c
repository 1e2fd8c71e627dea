/* test_shrink.c: the draw reaches the whole space, and the shrinker finds planted failures. */
#include <stdio.h>
#include <string.h>

#include "tests/support/candidate.h"
#include "tests/support/check.h"
#include "tests/support/shrink.h"

static void test_random__the_default_draw__valid_and_reaches_everything(void **state) {
    (void)state;
    uint32_t features = 0, bias_dtypes = 0, dtypes = 0, outputs = 0, data = 0, fills = 0,
             layouts = 0;
    uint32_t causals = 0, aligns = 0, scales = 0;
    int empty = 0, split = 0, padded = 0, absurd = 0, broadcast = 0, gqa = 0, d_differ = 0;
    for (uint64_t n = 0; n < 500; n++) {
        uint64_t rng = UINT64_C(1) << 32 | n;
        candidate c;
        lab_spec spec;
        candidate_random(&c, &rng);
        assert_true(candidate_build(&c, &spec));
        const att_problem *p = &spec.problem;
        features |= p->features;
        dtypes |= 1u << p->dtype;
        outputs |= p->dtype != p->dtype_o ? 1u << p->dtype_o : 0u;
        bias_dtypes |= p->features & ATT_BIAS ? 1u << p->bias_dtype : 0u;
        data |= 1u << spec.data;
        fills |= p->features & ATT_BIAS ? 1u << spec.bias_fill : 0u;
        layouts |= 1u << spec.layout;
        causals |= 1u << p->causal;
        aligns |= 1u << p->align;
        scales |= p->scale > 0 ? 1u : p->scale < 0 ? 2u : 4u;
        empty += p->batch == 0 || p->seq_q == 0 || p->seq_k == 0;
        split += p->seq_q == 1 && p->seq_k > 500;
        padded += spec.pad > 0;
        absurd += spec.absurd_strides;
        broadcast += spec.broadcast_batch || spec.broadcast_heads;
        gqa += p->heads_q != p->heads_kv;
        d_differ += p->d_qk != p->d_v;
    }
    assert_int_equal(features, ATT_FEATURES_ALL);
    assert_int_equal(dtypes, 0xe);
    assert_int_equal(outputs, 0xe);
    assert_int_equal(bias_dtypes, 0x1e);
    assert_int_equal(data, ((1u << LAB_DATA_COUNT) - 1) & ~(1u << LAB_DATA_SPARSE));
    assert_int_equal(fills, (1u << LAB_BIAS_FILL_COUNT) - 1);
    assert_int_equal(layouts, 7);
    assert_int_equal(causals, 7);
    assert_int_equal(aligns, 7);
    assert_int_equal(scales, 7);
    assert_true(empty > 3 && split > 3 && padded > 3 && absurd > 3 && broadcast > 3 &&
                gqa > 3 && d_differ > 3);
}

static void test_random__the_same_seed__the_same_problem(void **state) {
    (void)state;
    uint64_t first = 5, second = 5;
    candidate a = {0}, b = {0};
    candidate_random(&a, &first);
    candidate_random(&b, &second);
    assert_int_equal(a.count, b.count);
    for (int i = 0; i < a.count; i++) {
        assert_string_equal(a.list[i].name, b.list[i].name);
        assert_string_equal(a.list[i].value, b.list[i].value);
    }
}

/* Planted failures: each needs exactly this much. */
static bool long_causal(const lab_spec *spec, void *arg) {
    ++*(int *)arg;
    return spec->problem.causal != ATT_CAUSAL_NONE && spec->problem.seq_k >= 17 &&
           spec->problem.d_qk >= 4;
}

static bool paged_groups(const lab_spec *spec, void *arg) {
    ++*(int *)arg;
    const att_problem *p = &spec->problem;
    return (p->features & ATT_PAGED) && p->page_size > 2 && p->heads_q / p->heads_kv >= 3 &&
           p->dtype == ATT_BF16;
}

/* A candidate with more of everything than any planted failure needs. */
static candidate crowded(void) {
    candidate c = {0};
    candidate_set(&c, "b", "3");
    candidate_set(&c, "h", "12");
    candidate_set(&c, "hkv", "3");
    candidate_set(&c, "s", "70");
    candidate_set(&c, "sk", "150");
    candidate_set(&c, "d", "48");
    candidate_set(&c, "dv", "40");
    candidate_set(&c, "dtype", "bf16");
    candidate_set(&c, "o", "f32");
    candidate_set(&c, "causal", "bottom-right");
    candidate_set(&c, "window", "5:0");
    candidate_set(&c, "softcap", "30");
    candidate_set(&c, "bias", "f32:1h1k");
    candidate_set(&c, "biasfill", "hide");
    candidate_set(&c, "sinks", "%s", "");
    candidate_set(&c, "lse", "%s", "");
    candidate_set(&c, "lensk", "%s", "");
    candidate_set(&c, "lenseed", "7");
    candidate_set(&c, "paged", "16");
    candidate_set(&c, "layout", "bhsd");
    candidate_set(&c, "pad", "5");
    return c;
}

static void assert_shrinks_to(failing *planted, const char *wanted) {
    candidate c = crowded();
    lab_spec spec, again;
    char line[LAB_SPEC_MAX];
    int asked = 0;
    assert_true(candidate_build(&c, &spec));
    assert_true(planted(&spec, &asked));
    asked = 0;
    const int counted = shrink(&c, planted, &asked);
    assert_int_equal(counted, asked);
    assert_true(asked < 300);
    assert_true(candidate_build(&c, &spec));
    assert_true(planted(&spec, &asked));
    lab_spec_print(&spec, line, sizeof line);
    assert_string_equal(line, wanted);
    assert_true(lab_spec_parse(&again, line, NULL)); /* the printed problem is the same */
    assert_true(planted(&again, &asked));
}

static void test_shrink__planted_failures__nothing_left_but_their_cause(void **state) {
    (void)state;
    assert_shrinks_to(long_causal, "b1h1s1sk17d4,fp16,causal=bottom-right");
    assert_shrinks_to(paged_groups, "b1h3hkv1s1d1,bf16,paged=3");
}

static bool always(const lab_spec *spec, void *arg) {
    (void)spec;
    ++*(int *)arg;
    return true;
}

static void test_shrink__everything_fails__the_least_problem(void **state) {
    (void)state;
    assert_shrinks_to(always, "b1h1s1d1,fp16");
}

static bool only_the_first(const lab_spec *spec, void *arg) {
    (void)spec;
    return ++*(int *)arg == 0;
}

static void test_shrink__nothing_smaller_fails__unchanged(void **state) {
    (void)state;
    candidate c = crowded();
    const candidate before = c;
    int asked = 0;
    shrink(&c, only_the_first, &asked);
    assert_int_equal(c.count, before.count);
    assert_memory_equal(c.list, before.list, sizeof c.list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random__the_default_draw__valid_and_reaches_everything),
        cmocka_unit_test(test_random__the_same_seed__the_same_problem),
        cmocka_unit_test(test_shrink__planted_failures__nothing_left_but_their_cause),
        cmocka_unit_test(test_shrink__everything_fails__the_least_problem),
        cmocka_unit_test(test_shrink__nothing_smaller_fails__unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
