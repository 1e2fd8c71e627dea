/* test_moe_route.c: which experts a token goes to and with which weights: ties, NaN,
 * infinities, groups, the arithmetic itself. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "kernels/moe_routing.h"
#include "tests/support/engines.h"
#include "tests/support/mixture.h"
#include "tests/support/rng.h"

/* A problem with one column in and out, for testing the routing. */
static void init(att_moe_problem *p, int64_t tokens, int64_t experts, int64_t k,
                 att_moe_routing routing) {
    att_moe_problem_init(p, tokens, 1, 1, experts, k, ATT_F32);
    p->features = ATT_MOE_IDS | ATT_MOE_WEIGHTS | ATT_MOE_COUNTS;
    p->routing = routing;
    if (routing == ATT_MOE_GIVEN)
        p->flags = 0;
}

/* One token with these logits: these ids, these weights. */
static void check(const engines *e, const att_moe_problem *p, const float *logits,
                  const float *correction, const int32_t *ids, const double *weights) {
    mixture m;
    mixture_open(&m, p, 1);
    for (int64_t x = 0; x < p->experts; x++) {
        mixture_set_logit(&m, 0, x, logits[x]);
        if (correction)
            ((float *)(void *)m.array[MIX_CORRECTION].data)[x] = correction[x];
    }
    for (int n = 0; n < e->count; n++) {
        assert_ok(mixture_run(&m, e->ctx[n]));
        for (int64_t j = 0; j < p->experts_per_token; j++) {
            assert_int_equal(mixture_ids(&m, 0)[j], ids[j]);
            if (weights)
                assert_near((double)mixture_weights(&m, 0)[j], weights[j], 2e-7);
        }
        mixture_check(&m);
    }
    mixture_close(&m);
}

static void test_route__ties__the_lower_id_first(void **state) {
    att_moe_problem p;
    init(&p, 1, 6, 4, ATT_MOE_SOFTMAX_TOPK);
    check(*state, &p, (const float[]){1, 2, 2, 1, 2, 1}, NULL, (const int32_t[]){1, 2, 4, 0},
          NULL);
    check(*state, &p, (const float[]){0, 0, 0, 0, 0, 0}, NULL, (const int32_t[]){0, 1, 2, 3},
          (const double[]){0.25, 0.25, 0.25, 0.25});
    check(*state, &p, (const float[]){-1, 0.0f, -0.0f, 0.0f, -0.0f, 1}, NULL,
          (const int32_t[]){5, 1, 2, 3}, NULL);
    init(&p, 1, 6, 2, ATT_MOE_SIGMOID);
    check(*state, &p, (const float[]){0.5f, 0.5f, -3, 0.5f, 0, 0}, NULL,
          (const int32_t[]){0, 1}, (const double[]){0.5, 0.5});
}

static void test_route__nan__below_every_number(void **state) {
    const float logits[] = {NAN, -INFINITY, NAN, -5, NAN};
    att_moe_problem p;
    init(&p, 1, 5, 4, ATT_MOE_SOFTMAX_TOPK);
    check(*state, &p, logits, NULL, (const int32_t[]){3, 1, 0, 2},
          (const double[]){NAN, NAN, NAN, NAN}); /* NaN is in the sum over all */
    init(&p, 1, 5, 2, ATT_MOE_TOPK_SOFTMAX);
    check(*state, &p, logits, NULL, (const int32_t[]){3, 1}, (const double[]){1.0, 0.0});
    init(&p, 1, 5, 2, ATT_MOE_SIGMOID);
    check(*state, &p, logits, NULL, (const int32_t[]){3, 1}, (const double[]){1.0, 0.0});
    init(&p, 1, 5, 3, ATT_MOE_SIGMOID);
    p.flags = 0;
    check(*state, &p, logits, NULL, (const int32_t[]){3, 1, 0},
          (const double[]){0.0066928509242848554, 0.0, NAN});
}

static void test_route__infinities__share_the_weight(void **state) {
    att_moe_problem p;
    init(&p, 1, 4, 3, ATT_MOE_SOFTMAX_TOPK);
    check(*state, &p, (const float[]){1, INFINITY, -INFINITY, INFINITY}, NULL,
          (const int32_t[]){1, 3, 0}, (const double[]){0.5, 0.5, 0.0});
    check(*state, &p, (const float[]){-INFINITY, -INFINITY, -INFINITY, -INFINITY}, NULL,
          (const int32_t[]){0, 1, 2}, (const double[]){1 / 3.0, 1 / 3.0, 1 / 3.0});
    p.flags = 0;
    check(*state, &p, (const float[]){-INFINITY, -INFINITY, -INFINITY, -INFINITY}, NULL,
          (const int32_t[]){0, 1, 2}, (const double[]){0.25, 0.25, 0.25});
    init(&p, 1, 4, 2, ATT_MOE_SIGMOID); /* scores that are 0: no NaN from finite logits */
    check(*state, &p, (const float[]){-200, -300, -150, -200}, NULL, (const int32_t[]){0, 1},
          (const double[]){0.0, 0.0});
}

static void test_route__weights__by_each_rule(void **state) {
    const float logits[] = {0.0f, 1.0f, -1.0f, 2.0f};
    const double all = 1.0 + exp(1.0) + exp(-1.0) + exp(2.0), two = exp(1.0) + exp(2.0);
    const double s1 = 1 / (1 + exp(-1.0)), s2 = 1 / (1 + exp(-2.0));
    const int32_t ids[] = {3, 1};
    att_moe_problem p;
    init(&p, 1, 4, 2, ATT_MOE_SOFTMAX_TOPK);
    check(*state, &p, logits, NULL, ids, (const double[]){exp(2.0) / two, exp(1.0) / two});
    p.scaling = -2.5f;
    check(*state, &p, logits, NULL, ids,
          (const double[]){-2.5 * exp(2.0) / two, -2.5 * exp(1.0) / two});
    p.flags = 0;
    p.scaling = 1.0f;
    check(*state, &p, logits, NULL, ids, (const double[]){exp(2.0) / all, exp(1.0) / all});
    init(&p, 1, 4, 2, ATT_MOE_TOPK_SOFTMAX);
    check(*state, &p, logits, NULL, ids, (const double[]){exp(2.0) / two, exp(1.0) / two});
    p.flags = 0;
    check(*state, &p, logits, NULL, ids, (const double[]){exp(2.0) / two, exp(1.0) / two});
    init(&p, 1, 4, 2, ATT_MOE_SIGMOID);
    check(*state, &p, logits, NULL, ids, (const double[]){s2 / (s1 + s2), s1 / (s1 + s2)});
    p.flags = 0;
    check(*state, &p, logits, NULL, ids, (const double[]){s2, s1});
}

/* The correction affects only the selection; the score is the weight. */
static void test_route__correction__selects_only(void **state) {
    const float logits[] = {0, 1, 2, 3}, correction[] = {1, 0, 0, -1};
    att_moe_problem p;
    init(&p, 1, 4, 2, ATT_MOE_SIGMOID);
    p.features |= ATT_MOE_CORRECTION;
    p.flags = 0;
    check(*state, &p, logits, correction, (const int32_t[]){0, 2},
          (const double[]){0.5, 1 / (1 + exp(-2.0))});
}

/* Groups of four: the first has the best expert, the second the best two together. */
static void test_route__groups__by_their_two_best(void **state) {
    const float logits[] = {4, -4, -4, -4, 1, 1, -5, -5, 0.9f, 0.9f, 0.9f, 0.9f};
    att_moe_problem p;
    init(&p, 1, 12, 2, ATT_MOE_SIGMOID);
    p.groups = 3;
    p.groups_kept = 1;
    check(*state, &p, logits, NULL, (const int32_t[]){4, 5}, (const double[]){0.5, 0.5});
    p.groups_kept = 2;
    check(*state, &p, logits, NULL, (const int32_t[]){4, 5}, NULL);
    p.experts_per_token = 3;
    check(*state, &p, logits, NULL, (const int32_t[]){4, 5, 8}, NULL);
    p.groups_kept = 3;
    check(*state, &p, logits, NULL, (const int32_t[]){0, 4, 5}, NULL);
    const float equal[12] = {0};
    p.groups_kept = 2; /* of equal groups the first */
    p.experts_per_token = 6;
    check(*state, &p, equal, NULL, (const int32_t[]){0, 1, 2, 3, 4, 5}, NULL);
    const float nan[] = {NAN, 9, NAN, NAN, -1, -1, -1, -1, NAN, NAN, NAN, NAN};
    p.groups_kept = 1; /* a sum with NaN is below every number */
    p.experts_per_token = 2;
    check(*state, &p, nan, NULL, (const int32_t[]){4, 5}, NULL);
}

static void test_route__given__as_it_is(void **state) {
    const engines *e = *state;
    const int32_t ids[] = {2, -1, 2, -1, -1, -1, 0, 1, 2};
    const float weights[] = {0.5f, NAN, 0.25f, 1, NAN, INFINITY, -1, 2, 0};
    att_moe_problem p;
    mixture m;
    init(&p, 3, 3, 3, ATT_MOE_GIVEN);
    p.scaling = 2.0f;
    mixture_open(&m, &p, 1);
    memcpy(m.array[MIX_GIVEN_IDS].data, ids, sizeof ids);
    memcpy(m.array[MIX_GIVEN_WEIGHTS].data, weights, sizeof weights);
    for (int n = 0; n < e->count; n++) {
        assert_ok(mixture_run(&m, e->ctx[n]));
        mixture_check(&m);
        for (int s = 0; s < 9; s++) {
            assert_int_equal(m.args.ids[s], ids[s]);
            assert_true(m.args.weights[s] == (ids[s] < 0 ? 0.0f : 2.0f * weights[s]));
        }
        assert_true(mixture_y(&m, 1, 0) == 0.0f);
        assert_int_equal(m.args.counts[2], 3);
        assert_int_equal(m.args.counts[3], 0);
    }
    mixture_close(&m);
}

/* Many scores that nearly tie: every instruction set gives the ids of the reference. */
static void test_route__random_tokens__the_ids_of_the_reference(void **state) {
    static const struct {
        int64_t experts, k, groups, kept;
    } shapes[] = {{128, 8, 1, 1}, {256, 8, 8, 4}, {64, 6, 1, 1}, {60, 4, 1, 1}, {32, 32, 1, 1}};
    for (int routing = 0; routing < 3; routing++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (int coarse = 0; coarse < 2; coarse++) {
                att_moe_problem p;
                mixture m;
                init(&p, 64, shapes[s].experts, shapes[s].k, (att_moe_routing)routing);
                if (routing == ATT_MOE_SIGMOID) {
                    p.features |= ATT_MOE_CORRECTION;
                    p.groups = shapes[s].groups;
                    p.groups_kept = shapes[s].kept;
                }
                p.dtype = p.dtype_y = p.dtype_bias = ATT_BF16;
                p.dtype_logits = coarse ? ATT_BF16 : ATT_F32;
                mixture_open(&m, &p, 100 * s + (uint64_t)coarse);
                const engines *e = *state;
                for (int n = 0; n < e->count; n++) {
                    assert_ok(mixture_run(&m, e->ctx[n]));
                    mixture_check(&m);
                }
                mixture_close(&m);
            }
}

/* The bits that every device must have. */
static void test_route__sigmoid__known_bits(void **state) {
    static const struct {
        float x;
        uint32_t bits;
    } known[] = {{0.0f, 0x3f000000},    {1.0f, 0x3f3b26a8},   {-1.0f, 0x3e89b2b1},
                 {0.1f, 0x3f066509},    {-0.1f, 0x3ef335ed},  {7.25f, 0x3f7fd17e},
                 {-7.25f, 0x3a3a092d},  {20.0f, 0x3f800000},  {-20.0f, 0x310da433},
                 {-87.5f, 0x00000000},  {-88.5f, 0x00000000}, {100.0f, 0x3f800000},
                 {0x1p-20f, 0x3f000004}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(att_f32_bits(att_route_sigmoid(known[i].x)), known[i].bits);
    assert_true(isnan(att_route_sigmoid(NAN)));
    assert_true(att_route_sigmoid(INFINITY) == 1.0f && att_route_sigmoid(-INFINITY) == 0.0f);
    uint64_t random = 1;
    for (int i = 0; i < 100000; i++) {
        const float x = 80.0f * rng_signed(&random);
        const double want = 1.0 / (1.0 + exp(-(double)x));
        assert_near((double)att_route_sigmoid(x) / want, 1.0, 2e-7);
    }
}

static void test_route__keys__in_the_order_of_scores(void **state) {
    static const float rising[] = {-INFINITY, -0x1p127f, -1.0f, -0x1p-149f, 0.0f,
                                   0x1p-149f, 0x1p-126f, 1.0f,  0x1p127f,   INFINITY};
    (void)state;
    assert_int_equal(att_route_key(-0.0f), att_route_key(0.0f));
    assert_int_equal(att_route_key(NAN), 0);
    assert_int_equal(att_route_key(-NAN), 0);
    assert_true(att_route_key(-INFINITY) > 0);
    for (size_t i = 1; i < sizeof rising / sizeof rising[0]; i++)
        assert_true(att_route_key(rising[i]) > att_route_key(rising[i - 1]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_route__ties__the_lower_id_first),
        cmocka_unit_test(test_route__nan__below_every_number),
        cmocka_unit_test(test_route__infinities__share_the_weight),
        cmocka_unit_test(test_route__weights__by_each_rule),
        cmocka_unit_test(test_route__correction__selects_only),
        cmocka_unit_test(test_route__groups__by_their_two_best),
        cmocka_unit_test(test_route__given__as_it_is),
        cmocka_unit_test(test_route__random_tokens__the_ids_of_the_reference),
        cmocka_unit_test(test_route__sigmoid__known_bits),
        cmocka_unit_test(test_route__keys__in_the_order_of_scores),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
