/* test_cuda_softcap.c: tanh as the Hopper rows with softcap compute it, following the steps of
 * kernels/fwd_sm90_scores.cuh. */
#include <float.h>
#include <math.h>

#include "attention/cuda/softcap.h"
#include "tests/support/check.h"

static const double log2_e = 1.4426950408889634;

static att_problem capped(float scale, float softcap) {
    return (att_problem){.scale = scale, .softcap = softcap};
}

/* A product as a score in units of log2. */
static float by_polynomial(const float *even, int degree, float product) {
    const float square = product * product;
    float y = even[degree];
    for (int k = degree - 1; k >= 0; k--)
        y = fmaf(y, square, even[k]);
    return product * y;
}

static float by_exponential(const att_fwd_softcap *cap, float product) {
    const float e = exp2f(fabsf(product) * cap->decay);
    return copysignf(cap->most * fmaf(-2.0f * e, 1.0f / (1.0f + e), 1.0f), product);
}

static double exactly(const att_problem *p, float product) {
    return p->softcap * tanh((double)p->scale * product / p->softcap) * log2_e;
}

static void test_softcap__within_reach__a_few_ulp(void **state) {
    (void)state;
    static const float caps[] = {0.5f, 20.0f, 30.0f, 50.0f, 1000.0f};
    static const float scales[] = {0.0625f, 0.08838835f, 1.0f};
    for (size_t c = 0; c < 5; c++)
        for (size_t s = 0; s < 3; s++) {
            const att_problem p = capped(scales[s], caps[c]);
            att_fwd_softcap cap;
            assert_true(att_cuda_softcap_of(&cap, &p));
            assert_true(cap.near_reach > 0.17f * caps[c] / scales[s]);
            assert_true(cap.far_reach > 0.54f * caps[c] / scales[s]);
            for (int i = -2000; i <= 2000; i++) {
                const float part = (float)i / 2000.0f;
                const float near = cap.near_reach * part, far = cap.far_reach * part;
                const double score[2] = {exactly(&p, near), exactly(&p, far)};
                assert_true(fabs(by_polynomial(cap.near, ATT_SOFTCAP_NEAR, near) - score[0]) <=
                            3e-7 * fabs(score[0]));
                assert_true(fabs(by_polynomial(cap.far, ATT_SOFTCAP_FAR, far) - score[1]) <=
                            3e-7 * fabs(score[1]));
            }
        }
}

static void test_softcap__beyond_reach__a_few_ulp_of_the_cap(void **state) {
    (void)state;
    const att_problem p = capped(0.125f, 30.0f);
    att_fwd_softcap cap;
    assert_true(att_cuda_softcap_of(&cap, &p));
    for (int i = 0; i <= 2000; i++) {
        const float product = cap.far_reach * (1.0f + (float)i / 50.0f);
        assert_true(fabs(by_exponential(&cap, product) - exactly(&p, product)) <=
                    3e-7 * (double)cap.most);
        assert_true(by_exponential(&cap, -product) == -by_exponential(&cap, product));
    }
    assert_true(by_exponential(&cap, INFINITY) == cap.most);
}

/* Powers of scale / softcap that do not fit in float32. */
static void test_softcap__coefficients_out_of_range__refused(void **state) {
    (void)state;
    const float caps[] = {1e-9f, 1e12f};
    for (size_t i = 0; i < 2; i++) {
        const att_problem p = capped(0.125f, caps[i]);
        att_fwd_softcap cap;
        assert_false(att_cuda_softcap_of(&cap, &p));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softcap__within_reach__a_few_ulp),
        cmocka_unit_test(test_softcap__beyond_reach__a_few_ulp_of_the_cap),
        cmocka_unit_test(test_softcap__coefficients_out_of_range__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
