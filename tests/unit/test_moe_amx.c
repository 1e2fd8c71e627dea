/* test_moe_amx.c: the moe kernel for AMX, with its instructions replaced by plain C, on any
 * machine. */
#undef ATT_AVX512_EMULATE
#undef ATT_AMX_EMULATE
#define ATT_AVX512_EMULATE
#define ATT_AMX_EMULATE
#include "cpu/simd_wide.h"

#define ISA amx_in_c

#include "moe/cpu/moe_amx_body.h"
#include "moe/cpu/moe_kernel_body.h"

#include "core/plan.h"
#include "tests/support/engines.h"
#include "tests/support/mixture.h"
#include "tests/support/rng.h"

extern const att_family att_family_cpu_moe;

static const att_kernel_row row = {.id = "moe_cpu_amx_in_c",
                                   .family = &att_family_cpu_moe,
                                   .device = ATT_DEVICE_CPU,
                                   .isa = ATT_ISA_AMX,
                                   .cpu = &moe_cpu_amx_in_c};

static void run_in_c(mixture *m, att_context *ctx) {
    att_moe_cut cut;
    att_refusal refusal = {.step = 0};
    size_t bytes;
    assert_true(att_family_cpu_moe.serves(&row, &ctx->limits, &m->p, &refusal));
    assert_ok(att_family_cpu_moe.cut(&cut, &bytes, ctx, &row, &m->p));
    guarded workspace = guard_open(bytes, ATT_WORKSPACE_ALIGN);
    memset(workspace.data, 0xff, workspace.bytes);
    const att_plan plan = {.ctx = ctx,
                           .operation = &att_operation_moe,
                           .kernel = &row,
                           .workspace = bytes,
                           .problem = &m->p,
                           .state = &cut};
    mixture_poison(m);
    assert_ok(att_family_cpu_moe.run(&plan, &m->args, workspace.data, NULL));
    assert_true(guard_intact(&workspace));
    guard_close(&workspace);
}

static void check(const att_moe_problem *p, uint64_t seed) {
    att_context *ctx = context_open(ATT_ISA_PORTABLE, 2);
    mixture m;
    mixture_open(&m, p, seed);
    run_in_c(&m, ctx);
    mixture_check(&m);
    assert_string_equal(m.launch.kernel, "moe_cpu_amx_in_c");
    mixture_close(&m);
    att_context_destroy(ctx);
}

static void test_amx__sizes__near_the_oracle(void **state) {
    static const int64_t sizes[][5] = {
        {1, 1, 1, 1, 1},     {1, 64, 48, 8, 2},   {5, 33, 17, 4, 2},
        {16, 32, 32, 1, 1},  {17, 31, 65, 2, 1},  {40, 100, 70, 2, 2},
        {70, 72, 130, 3, 2}, {33, 300, 15, 1, 1}, {7, 16, 16, 40, 6}};
    (void)state;
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        const int64_t *s = sizes[n];
        att_moe_problem p;
        att_moe_problem_init(&p, s[0], s[1], s[2], s[3], s[4], ATT_BF16);
        p.features = ATT_MOE_IDS | ATT_MOE_WEIGHTS | ATT_MOE_COUNTS;
        check(&p, n);
        p.dtype_y = ATT_F32;
        p.features |= ATT_MOE_BIAS1 | ATT_MOE_BIAS2;
        check(&p, n);
    }
}

static void test_amx__activations_and_storage__near_the_oracle(void **state) {
    (void)state;
    for (int act = ATT_MOE_SWIGLU; act <= ATT_MOE_GELU_TANH; act++)
        for (int gate = 0; gate < (act <= ATT_MOE_SWIGLU_CLAMPED ? 3 : 1); gate++) {
            att_moe_problem p;
            att_moe_problem_init(&p, 37, 40, 45, 3, 2, ATT_BF16);
            p.activation = (att_moe_activation)act;
            p.gate = (att_moe_gate)gate;
            p.features = ATT_MOE_BIAS1 | ATT_MOE_BIAS2;
            p.dtype_bias = act % 2 ? ATT_F32 : ATT_BF16;
            att_moe_problem_layout(&p);
            p.w1.row += 5;
            p.w1.expert *= 2;
            p.w2.row += 3;
            p.w2.expert *= 2;
            p.w3.row += 1;
            p.w3.expert *= 2;
            check(&p, (uint64_t)(10 * act + gate));
        }
}

static void test_amx__other_tokens_change__same_bits(void **state) {
    att_context *ctx = context_open(ATT_ISA_PORTABLE, 3);
    att_moe_problem p;
    mixture before, after;
    uint64_t random = 3;
    (void)state;
    att_moe_problem_init(&p, 50, 70, 40, 4, 2, ATT_BF16);
    mixture_open(&before, &p, 2);
    mixture_open(&after, &p, 2);
    for (int64_t t = 0; t < p.tokens; t++)
        for (int64_t c = 0; t % 7 != 3 && c < p.hidden; c++)
            mixture_set_x(&after, t, c, t == 4 ? NAN : rng_signed(&random));
    for (int64_t t = 0; t < p.tokens; t++)
        for (int64_t x = 0; t % 7 != 3 && x < p.experts; x++)
            mixture_set_logit(&after, t, x, rng_signed(&random) + (float)(x == 1));
    run_in_c(&before, ctx);
    run_in_c(&after, ctx);
    for (int64_t t = 3; t < p.tokens; t += 7)
        assert_true(mixture_same_row(&before, t, &after, t));
    mixture_close(&before);
    mixture_close(&after);
    att_context_destroy(ctx);
}

static void test_amx__transposed_weights__refused(void **state) {
    att_context *ctx = context_open(ATT_ISA_PORTABLE, 1);
    att_refusal refusal = {.step = 0};
    att_moe_problem p;
    (void)state;
    att_moe_problem_init(&p, 5, 16, 16, 2, 1, ATT_BF16);
    p.flags |= ATT_MOE_TRANSPOSED;
    assert_false(att_family_cpu_moe.serves(&row, &ctx->limits, &p, &refusal));
    assert_string_equal(refusal.field, "flags");
    att_moe_problem_init(&p, 5, 16, 16, 2, 1, ATT_F16);
    assert_false(att_family_cpu_moe.serves(&row, &ctx->limits, &p, &refusal));
    assert_string_equal(refusal.field, "dtype");
    att_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amx__sizes__near_the_oracle),
        cmocka_unit_test(test_amx__activations_and_storage__near_the_oracle),
        cmocka_unit_test(test_amx__other_tokens_change__same_bits),
        cmocka_unit_test(test_amx__transposed_weights__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
