/* test_moe.c: mixtures of experts on every instruction set: sizes, types, activations, storage,
 * ranges, masks, NaN. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "tests/support/engines.h"
#include "tests/support/mixture.h"

static const att_dtype types[] = {ATT_F32, ATT_F16, ATT_BF16};

enum { ALL_OUTPUTS = ATT_MOE_IDS | ATT_MOE_WEIGHTS | ATT_MOE_COUNTS };

/* On every instruction set, near the oracle. */
static void check_all(const engines *e, const att_moe_problem *p, uint64_t seed) {
    mixture m;
    mixture_open(&m, p, seed);
    for (int n = 0; n < e->count; n++) {
        assert_ok(mixture_run(&m, e->ctx[n]));
        mixture_check(&m);
        if (p->tokens > 0)
            assert_int_equal(strncmp(m.launch.kernel, "moe_cpu_", 8), 0);
    }
    mixture_close(&m);
}

static void test_moe__sizes_and_types__near_the_oracle(void **state) {
    static const int64_t sizes[][5] = {
        /* tokens, hidden, inner, experts, k */
        {1, 1, 1, 1, 1},      {1, 64, 48, 8, 2},   {2, 7, 5, 3, 3},      {3, 33, 17, 4, 2},
        {5, 8, 16, 2, 1},     {7, 100, 65, 16, 4}, {50, 72, 31, 2, 2},   {49, 40, 40, 1, 1},
        {130, 24, 129, 4, 2}, {9, 1100, 20, 2, 2}, {60, 20, 1100, 1, 1}, {3, 16, 16, 300, 7}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int t = 0; t < 3; t++) {
            att_moe_problem p;
            att_moe_problem_init(&p, sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3],
                                 sizes[s][4], types[t]);
            p.features = ALL_OUTPUTS;
            check_all(*state, &p, 10 * s + (size_t)t);
            p.dtype_y = ATT_F32;
            check_all(*state, &p, 10 * s + (size_t)t);
        }
}

static void test_moe__activations_and_biases__near_the_oracle(void **state) {
    for (int act = ATT_MOE_SWIGLU; act <= ATT_MOE_GELU_TANH; act++)
        for (int t = 0; t < 3; t++)
            for (int biases = 0; biases < 3; biases++) {
                att_moe_problem p;
                att_moe_problem_init(&p, 13, 40, 35, 4, 2, types[t]);
                p.activation = (att_moe_activation)act;
                p.features = biases ? ATT_MOE_BIAS1 | ATT_MOE_BIAS2 : 0;
                p.dtype_bias = biases == 2 ? ATT_F32 : types[t];
                p.alpha = 1.25f;
                p.limit = 0.5f;
                att_moe_problem_layout(&p);
                check_all(*state, &p, (uint64_t)(100 * act + 10 * t + biases));
            }
}

static void test_moe__storage__near_the_oracle(void **state) {
    for (int gate = 0; gate < 4; gate++) /* the fourth: no gate */
        for (int transposed = 0; transposed < 2; transposed++)
            for (int padded = 0; padded < 3; padded++) {
                att_moe_problem p;
                att_moe_problem_init(&p, padded == 2 ? 1 : 40, 35, 29, 3, 2, types[padded]);
                p.gate = gate < 3 ? (att_moe_gate)gate : ATT_MOE_CONCATENATED;
                p.activation = gate < 3 ? ATT_MOE_SWIGLU : ATT_MOE_GELU;
                p.flags |= transposed ? ATT_MOE_TRANSPOSED : 0;
                p.features = ATT_MOE_BIAS1 | ATT_MOE_BIAS2;
                att_moe_problem_layout(&p);
                if (padded) {
                    p.x_row += 3;
                    p.y_row += 5;
                    p.logits_row += 1;
                    p.w1.row += 7;
                    p.w1.expert = 2 * p.w1.expert + 700;
                    p.w2.row += 2;
                    p.w2.expert = 2 * p.w2.expert + 100;
                    p.w3.row += 1;
                    p.w3.expert = 2 * p.w3.expert + 100;
                    p.b1_expert += 4;
                    p.b2_expert += 1;
                    p.b3_expert += 9;
                }
                check_all(*state, &p, (uint64_t)(100 * gate + 10 * transposed + padded));
            }
}

static void test_moe__padding_of_y__untouched(void **state) {
    const engines *e = *state;
    att_moe_problem p;
    mixture m;
    att_moe_problem_init(&p, 3, 21, 10, 2, 1, ATT_BF16);
    p.y_row = 30;
    mixture_open(&m, &p, 1);
    for (int n = 0; n < e->count; n++) {
        assert_ok(mixture_run(&m, e->ctx[n]));
        const uint16_t *y = (const uint16_t *)(const void *)m.array[MIX_Y].data;
        for (int64_t t = 0; t < 2; t++)
            for (int64_t c = 21; c < 30; c++)
                assert_int_equal(y[t * 30 + c], 0xffff);
    }
    mixture_close(&m);
}

static void test_moe__shared_weights__stride_0(void **state) {
    att_moe_problem p;
    att_moe_problem_init(&p, 11, 16, 12, 4, 2, ATT_F32);
    p.features = ATT_MOE_BIAS1 | ATT_MOE_BIAS2;
    p.w1.expert = p.w2.expert = p.b1_expert = p.b2_expert = 0;
    p.x_row = 0;
    check_all(*state, &p, 5);
}

/* Every expert is in exactly one of the calls: their y sum to that of one call with all. */
static void test_moe__ranges_of_experts__add_up(void **state) {
    const engines *e = *state;
    static const int64_t ends[] = {0, 1, 5, 6, 8};
    att_moe_problem p;
    mixture all;
    att_moe_problem_init(&p, 23, 20, 18, 8, 3, ATT_F32);
    p.features = ALL_OUTPUTS;
    mixture_open(&all, &p, 3);
    for (int n = 0; n < e->count; n++) {
        double sum[23][20] = {{0.0}};
        assert_ok(mixture_run(&all, e->ctx[n]));
        for (int r = 0; r < 4; r++) {
            mixture part = all;
            float y[23 * 20];
            part.p.first_expert = ends[r];
            part.p.local_experts = ends[r + 1] - ends[r];
            part.args.w1 = (const float *)all.args.w1 + ends[r] * p.w1.expert;
            part.args.w2 = (const float *)all.args.w2 + ends[r] * p.w2.expert;
            part.args.y = y;
            part.args.ids = NULL;
            part.args.weights = NULL;
            part.args.counts = NULL;
            part.p.features = 0;
            att_plan *plan;
            assert_ok(att_moe_plan_create(&plan, e->ctx[n], &part.p));
            void *workspace = aligned_alloc(ATT_WORKSPACE_ALIGN, att_plan_workspace(plan));
            assert_ok(att_moe_run(plan, &part.args, workspace, NULL));
            free(workspace);
            att_plan_destroy(plan);
            for (int64_t t = 0; t < 23; t++) {
                mixture_check_token(&part, t);
                for (int64_t c = 0; c < 20; c++)
                    sum[t][c] += (double)y[t * 20 + c];
            }
        }
        for (int64_t t = 0; t < 23; t++)
            for (int64_t c = 0; c < 20; c++)
                assert_near(sum[t][c], (double)mixture_y(&all, t, c), 1e-5);
    }
    mixture_close(&all);
}

static void test_moe__masked_tokens__zero_and_nowhere(void **state) {
    const engines *e = *state;
    att_moe_problem p;
    mixture m;
    att_moe_problem_init(&p, 9, 16, 12, 4, 2, ATT_BF16);
    p.features = ALL_OUTPUTS | ATT_MOE_MASK | ATT_MOE_BIAS2;
    mixture_open(&m, &p, 4);
    for (int64_t t = 0; t < p.tokens; t += 3) {
        m.array[MIX_MASK].data[t] = 0;
        mixture_set_x(&m, t, 1, NAN);
        mixture_set_logit(&m, t, 2, NAN);
    }
    for (int n = 0; n < e->count; n++) {
        assert_ok(mixture_run(&m, e->ctx[n]));
        mixture_check(&m);
        for (int64_t t = 0; t < p.tokens; t += 3) {
            assert_int_equal(mixture_ids(&m, t)[0], -1);
            assert_true(mixture_weights(&m, t)[1] == 0.0f);
            for (int64_t c = 0; c < p.hidden; c++)
                assert_true(mixture_y(&m, t, c) == 0.0f);
        }
    }
    memset(m.array[MIX_MASK].data, 0, m.array[MIX_MASK].bytes); /* and all of them */
    for (int n = 0; n < e->count; n++) {
        assert_ok(mixture_run(&m, e->ctx[n]));
        mixture_check(&m);
        assert_int_equal(strncmp(m.launch.kernel, "moe_cpu_", 8), 0);
    }
    mixture_close(&m);
}

static void test_moe__nan_in_a_token__stays_in_its_row(void **state) {
    const engines *e = *state;
    for (int t = 0; t < 3; t++) {
        att_moe_problem p;
        mixture m;
        att_moe_problem_init(&p, 40, 24, 20, 3, 2, types[t]);
        mixture_open(&m, &p, 6);
        mixture_set_x(&m, 7, 3, NAN);
        mixture_set_x(&m, 20, 0, INFINITY);
        for (int n = 0; n < e->count; n++) {
            assert_ok(mixture_run(&m, e->ctx[n]));
            for (int64_t token = 0; token < p.tokens; token++)
                for (int64_t c = 0; c < p.hidden; c++)
                    if (token == 7)
                        assert_true(isnan(mixture_y(&m, token, c)));
                    else if (token != 20)
                        assert_true(isfinite(mixture_y(&m, token, c)));
        }
        mixture_close(&m);
    }
}

/* An expert with NaN weights affects the tokens that go to it, and no other. */
static void test_moe__nan_in_an_expert__reaches_its_tokens(void **state) {
    const engines *e = *state;
    att_moe_problem p;
    mixture m;
    att_moe_problem_init(&p, 50, 24, 20, 4, 1, ATT_BF16);
    p.features = ATT_MOE_IDS;
    mixture_open(&m, &p, 8);
    att_store(m.array[MIX_W2].data, p.dtype, 2 * p.w2.expert + 5 * p.w2.row, NAN);
    for (int n = 0; n < e->count; n++) {
        assert_ok(mixture_run(&m, e->ctx[n]));
        int64_t reached = 0;
        for (int64_t t = 0; t < p.tokens; t++)
            for (int64_t c = 0; c < p.hidden; c++) {
                const bool own = mixture_ids(&m, t)[0] == 2 && c == 5;
                assert_int_equal(isnan(mixture_y(&m, t, c)) != 0, own);
                reached += own;
            }
        assert_true(reached > 0);
    }
    mixture_close(&m);
}

static void test_moe__no_tokens__counts_are_zero(void **state) {
    const engines *e = *state;
    att_moe_problem p;
    mixture m;
    att_moe_problem_init(&p, 0, 16, 12, 4, 2, ATT_BF16);
    p.features = ATT_MOE_COUNTS;
    mixture_open(&m, &p, 1);
    for (int n = 0; n < e->count; n++) {
        assert_ok(mixture_run(&m, e->ctx[n]));
        for (int64_t x = 0; x <= p.experts; x++)
            assert_int_equal(m.args.counts[x], 0);
    }
    mixture_close(&m);
}

/* More tokens than fit in a chunk: all of them to one expert, and spread. */
static void test_moe__many_tokens__chunks_add_up(void **state) {
    for (int one = 0; one < 2; one++) {
        att_moe_problem p;
        att_moe_problem_init(&p, 5001, 6, 4, one ? 1 : 5, one ? 1 : 2, ATT_BF16);
        p.features = ALL_OUTPUTS;
        check_all(*state, &p, 77);
    }
}

static void test_moe__workspace__bounded_by_a_chunk(void **state) {
    const engines *e = *state;
    size_t bytes[2];
    for (int n = 0; n < 2; n++) {
        att_moe_problem p;
        att_plan *plan;
        att_moe_problem_init(&p, n ? 1 << 24 : 1 << 16, 64, 64, 8, 2, ATT_BF16);
        assert_ok(att_moe_plan_create(&plan, e->ctx[0], &p));
        bytes[n] = att_plan_workspace(plan);
        assert_int_equal(bytes[n] % ATT_WORKSPACE_ALIGN, 0);
        att_plan_destroy(plan);
    }
    assert_int_equal(bytes[0], bytes[1]);
}

static void test_moe__explain__lists_the_kernels_of_moe_alone(void **state) {
    const engines *e = *state;
    att_moe_problem p;
    char text[ATT_EXPLAIN_MAX];
    att_moe_problem_init(&p, 2, 16, 12, 4, 2, ATT_F32);
    assert_ok(att_moe_explain(e->ctx[0], &p, text, sizeof text));
    assert_non_null(strstr(text, "chosen   moe_cpu_portable"));
    assert_non_null(strstr(text, "refused  moe_cpu_avx2"));
    assert_null(strstr(text, "fwd_cpu"));
    att_kernel_info info = {.size = sizeof info};
    size_t count = 0;
    for (size_t i = 0; i < att_kernel_count(); i++) {
        assert_ok(att_kernel_query(e->ctx[0], i, &info));
        count += strcmp(info.operation, "moe") == 0 && info.device == ATT_DEVICE_CPU;
    }
    assert_int_equal(count, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moe__sizes_and_types__near_the_oracle),
        cmocka_unit_test(test_moe__activations_and_biases__near_the_oracle),
        cmocka_unit_test(test_moe__storage__near_the_oracle),
        cmocka_unit_test(test_moe__padding_of_y__untouched),
        cmocka_unit_test(test_moe__shared_weights__stride_0),
        cmocka_unit_test(test_moe__ranges_of_experts__add_up),
        cmocka_unit_test(test_moe__masked_tokens__zero_and_nowhere),
        cmocka_unit_test(test_moe__nan_in_a_token__stays_in_its_row),
        cmocka_unit_test(test_moe__nan_in_an_expert__reaches_its_tokens),
        cmocka_unit_test(test_moe__no_tokens__counts_are_zero),
        cmocka_unit_test(test_moe__many_tokens__chunks_add_up),
        cmocka_unit_test(test_moe__workspace__bounded_by_a_chunk),
        cmocka_unit_test(test_moe__explain__lists_the_kernels_of_moe_alone),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
