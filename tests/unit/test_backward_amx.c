/* test_backward_amx.c: the AMX kernel of gradients, with its instructions replaced by plain C,
 * on any machine. */
#undef ATT_AVX512_EMULATE
#undef ATT_AMX_EMULATE
#define ATT_AVX512_EMULATE
#define ATT_AMX_EMULATE
#include "cpu/simd_wide.h"

#define ISA amx_in_c

#include "backward/cpu/gradient_amx_body.h"
#include "backward/cpu/gradient_kernel_body.h"

#include "core/plan.h"
#include "tests/support/engines.h"
#include "tests/support/gradients.h"

extern const att_family att_family_cpu_backward;

static const att_kernel_row row = {.id = "bwd_cpu_amx_in_c",
                                   .family = &att_family_cpu_backward,
                                   .device = ATT_DEVICE_CPU,
                                   .isa = ATT_ISA_AMX,
                                   .cpu = &bwd_cpu_amx_in_c};

static void run_in_c(gradients *g, att_context *ctx) {
    att_gradient_cut cut;
    size_t bytes;
    gradients_poison(g);
    assert_ok(att_family_cpu_backward.cut(&cut, &bytes, ctx, &row, &g->p));
    guarded workspace = guard_open(bytes, ATT_WORKSPACE_ALIGN);
    memset(workspace.data, 0x3f, workspace.bytes); /* 0.75: NaN would be computed again */
    const att_plan plan = {.ctx = ctx,
                           .operation = &att_operation_backward,
                           .kernel = &row,
                           .workspace = bytes,
                           .problem = &g->p,
                           .state = &cut};
    assert_ok(att_family_cpu_backward.run(&plan, &g->args, workspace.data, NULL));
    assert_true(guard_intact(&workspace));
    guard_close(&workspace);
}

static void check(const att_problem *p, const gradient_lengths *lengths, uint64_t seed) {
    att_context *ctx = context_open(ATT_ISA_PORTABLE, 2);
    gradients g;
    gradients_open(&g, p, lengths, seed, 1.0f);
    run_in_c(&g, ctx);
    gradients_check(&g, gradients_unit(p));
    assert_string_equal(g.launch.kernel, "bwd_cpu_amx_in_c");
    gradients_close(&g);
    att_context_destroy(ctx);
}

static void dense(att_problem *p, int64_t batch, int64_t heads_q, int64_t heads_kv,
                  int64_t seq_q, int64_t seq_k, int64_t d_qk, int64_t d_v) {
    att_problem_init(p, batch, heads_q, heads_kv, seq_q, seq_k, d_qk, d_v, ATT_BF16);
    p->features = ATT_LSE;
}

static void test_amx__sizes__near_float64(void **state) {
    (void)state;
    static const int64_t sizes[][7] = {{1, 1, 1, 1, 1, 1, 1},       {1, 2, 1, 33, 31, 33, 7},
                                       {1, 4, 2, 129, 257, 64, 48}, {1, 1, 1, 300, 520, 40, 96},
                                       {1, 3, 3, 97, 64, 128, 130}, {1, 1, 1, 20, 30, 256, 256},
                                       {2, 2, 2, 0, 7, 16, 16},     {2, 2, 2, 7, 0, 16, 16}};
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        const int64_t *s = sizes[n];
        att_problem p;
        dense(&p, s[0], s[1], s[2], s[3], s[4], s[5], s[6]);
        check(&p, NULL, n);
        p.dtype_grad = ATT_F32;
        check(&p, NULL, n);
    }
}

static void test_amx__masks__near_float64(void **state) {
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        att_problem p;
        dense(&p, 1, 4, 2, 190, 300, 32, 32);
        p.causal = kind < 3 ? (att_causal)(1 + kind % 2) : ATT_CAUSAL_NONE;
        p.align = kind < 3 ? ATT_ALIGN_UNSET : ATT_ALIGN_BOTTOM_RIGHT;
        p.window_left = kind < 2 ? -1 : 40;
        p.window_right = kind == 4 ? 3 : -1;
        check(&p, NULL, 10 + (uint64_t)kind);
    }
}

static void test_amx__features__near_float64(void **state) {
    (void)state;
    att_problem p;
    dense(&p, 2, 4, 2, 91, 140, 24, 40);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    p.softcap = 1.5f;
    p.features |= ATT_ALIBI | ATT_SINKS | ATT_LENS_K | ATT_STARTS_K | ATT_BIAS;
    p.gradients = ATT_D_ALIBI | ATT_D_SINKS | ATT_D_BIAS;
    p.bias_dtype = ATT_F32;
    p.bias = p.grad_bias = (att_strides){.batch = 0, .head = 91 * 140, .row = 140, .col = 1};
    const gradient_lengths lengths = {.lens_k = {140, 77}, .starts_k = {3, 37}};
    check(&p, &lengths, 20);
}

static void test_amx__packed_sequences__near_float64(void **state) {
    (void)state;
    const gradient_lengths lengths = {.cu_q = {0, 17, 17, 147, 151},
                                      .cu_k = {0, 40, 61, 191, 191}};
    att_problem p;
    dense(&p, 4, 4, 2, 130, 130, 16, 24);
    p.features |= ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K;
    p.total_q = 155;
    p.total_k = 199;
    att_problem_layout_bshd(&p);
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    check(&p, &lengths, 30);
}

/* The products flush subnormal numbers to zero: d_o is scaled up before. */
static void test_amx__tiny_d_o__as_precise(void **state) {
    (void)state;
    att_problem p;
    dense(&p, 1, 2, 1, 40, 50, 16, 16);
    p.dtype_grad = ATT_F32;
    att_context *ctx = context_open(ATT_ISA_PORTABLE, 1);
    gradients g;
    gradients_open(&g, &p, NULL, 35, 1.0f);
    const float by = 0x1p-122f;
    for (int64_t x = 0; x < p.seq_q * 2 * p.d_v; x++)
        att_store(g.d_o.data, p.dtype, x, by * att_load(g.d_o.data, p.dtype, x));
    run_in_c(&g, ctx);
    for (int64_t i = 0; i < p.seq_q; i++)
        for (int64_t h = 0; h < p.heads_q; h++)
            for (int64_t x = 0; x < p.d_qk; x++)
                assert_near((double)att_load(g.d_q.data, ATT_F32,
                                             gradients_at_q(&g, &p.grad_q, 0, h, i) + x),
                            g.want.d_q[(h * p.seq_q + i) * p.d_qk + x] * (double)by,
                            0.002 * (double)by);
    gradients_close(&g);
    att_context_destroy(ctx);
}

static void multiply(guarded *array, int64_t count, float by) {
    for (int64_t x = 0; x < count; x++)
        att_store(array->data, ATT_BF16, x, by * att_load(array->data, ATT_BF16, x));
}

/* Times a d_o of 2^90, a subnormal V is in range: the products must not lose it. O is rounded to five bits or so. */
static void test_amx__subnormal_v_huge_d_o__near_float64(void **state) {
    (void)state;
    att_problem p;
    dense(&p, 1, 2, 1, 5, 7, 16, 16);
    p.features |= ATT_ALIBI;
    p.gradients = ATT_D_ALIBI;
    att_context *ctx = context_open(ATT_ISA_PORTABLE, 1);
    gradients g;
    gradients_open(&g, &p, NULL, 38, 1.0f);
    multiply(&g.v, p.seq_k * p.d_v, 0x1p-128f);
    multiply(&g.d_o, p.seq_q * p.heads_q * p.d_v, 0x1p90f);
    gradients_answer(&g);
    run_in_c(&g, ctx);
    const double most = fmax(fabs(g.want.d_alibi[0]), fabs(g.want.d_alibi[1]));
    assert_true(most > 0x1p-45);
    for (int h = 0; h < 2; h++)
        assert_near((double)att_load(g.d_alibi.data, ATT_F32, h), g.want.d_alibi[h],
                    0.1 * most);
    gradients_close(&g);
    att_context_destroy(ctx);
}

/* A strip of rows between two others sees fewer keys than they do, at either end. */
static void test_amx__strips_see_other_keys__near_float64(void **state) {
    (void)state;
    att_problem p;
    dense(&p, 1, 1, 1, 100, 160, 16, 16);
    p.features |= ATT_BIAS;
    p.bias_dtype = ATT_BOOL8;
    p.bias = (att_strides){.batch = 0, .head = 0, .row = 160, .col = 1};
    att_context *ctx = context_open(ATT_ISA_PORTABLE, 1);
    gradients g;
    gradients_open(&g, &p, NULL, 36, 1.0f);
    for (int64_t i = 0; i < 100; i++)
        for (int64_t j = 0; j < 160; j++)
            g.bias.data[i * 160 + j] = i / 32 != 1 || (j >= 70 && j < 90);
    gradients_answer(&g);
    run_in_c(&g, ctx);
    gradients_check(&g, gradients_unit(&p));
    gradients_close(&g);
    att_context_destroy(ctx);
}

/* NaN in a key, a row and a value that some rows see: the other gradients are unchanged. */
static void test_amx__nan__reaches_only_what_sees_it(void **state) {
    (void)state;
    att_problem p;
    dense(&p, 1, 1, 1, 200, 200, 16, 16);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    p.window_left = 5;
    att_context *ctx = context_open(ATT_ISA_PORTABLE, 1);
    gradients g;
    gradients_open(&g, &p, NULL, 37, 1.0f);
    att_store(g.k.data, p.dtype, gradients_at_k(&g, &p.k, 0, 0, 70), NAN);
    att_store(g.d_o.data, p.dtype, gradients_at_q(&g, &p.grad_o, 0, 0, 40), NAN);
    att_store(g.q.data, p.dtype, gradients_at_q(&g, &p.q, 0, 0, 110), INFINITY);
    run_in_c(&g, ctx);
    int64_t finite = 0;
    for (int64_t i = 0; i < 200; i++)
        for (int64_t x = 0; x < 16; x++) {
            const float d_q = att_load(g.d_q.data, p.dtype, i * 16 + x);
            const float d_k = att_load(g.d_k.data, p.dtype, i * 16 + x);
            const float d_v = att_load(g.d_v.data, p.dtype, i * 16 + x);
            finite += isfinite(d_q) && isfinite(d_k) && isfinite(d_v);
            if (i < 34 || (i > 46 && i < 64) || (i > 76 && i < 104) || i > 111) {
                assert_near((double)d_q, g.want.d_q[i * 16 + x], 0.02);
                assert_near((double)d_k, g.want.d_k[i * 16 + x], 0.02);
                assert_near((double)d_v, g.want.d_v[i * 16 + x], 0.02);
            }
        }
    assert_true(finite < 200 * 16); /* and it does reach those that see it */
    gradients_close(&g);
    att_context_destroy(ctx);
}

static void test_amx__other_threads__same_bits(void **state) {
    (void)state;
    att_problem p;
    dense(&p, 1, 2, 1, 300, 700, 32, 32);
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    gradients one, more;
    gradients_open(&one, &p, NULL, 40, 1.0f);
    gradients_open(&more, &p, NULL, 40, 1.0f);
    static const int32_t counts[] = {1, 2, 3, 7};
    for (int n = 0; n < 4; n++) {
        att_context *ctx = context_open(ATT_ISA_PORTABLE, counts[n]);
        run_in_c(n ? &more : &one, ctx);
        att_context_destroy(ctx);
        if (n) {
            assert_memory_equal(more.d_q.data, one.d_q.data, one.d_q.bytes);
            assert_memory_equal(more.d_k.data, one.d_k.data, one.d_k.bytes);
            assert_memory_equal(more.d_v.data, one.d_v.data, one.d_v.bytes);
        }
    }
    gradients_check(&one, gradients_unit(&p));
    gradients_close(&one);
    gradients_close(&more);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amx__sizes__near_float64),
        cmocka_unit_test(test_amx__masks__near_float64),
        cmocka_unit_test(test_amx__features__near_float64),
        cmocka_unit_test(test_amx__packed_sequences__near_float64),
        cmocka_unit_test(test_amx__tiny_d_o__as_precise),
        cmocka_unit_test(test_amx__subnormal_v_huge_d_o__near_float64),
        cmocka_unit_test(test_amx__strips_see_other_keys__near_float64),
        cmocka_unit_test(test_amx__nan__reaches_only_what_sees_it),
        cmocka_unit_test(test_amx__other_threads__same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
