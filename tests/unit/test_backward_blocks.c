/* test_backward_blocks.c: which gradients the rows of bwd_sm80 support, on GPUs that the
 * selector sees through their limits; the steps around them, the order in which blocks take
 * their tiles of keys, and the workspace. */
#include <string.h>

#include "backward/cuda/backward_params.h"
#include "backward/cuda/backward_steps.h"
#include "core/select.h"
#include "cuda/shape.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

static const att_cuda_limits l4 = {.cc = 89,
                                   .sms = 58,
                                   .shared_per_block = 99 << 10,
                                   .shared_per_sm = 100 << 10,
                                   .l2_bytes = 48 << 20};
static const att_cuda_limits a100 = {.cc = 80,
                                     .sms = 108,
                                     .shared_per_block = 163 << 10,
                                     .shared_per_sm = 164 << 10,
                                     .l2_bytes = 40 << 20};

static att_problem problem(int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t seq,
                           int64_t d_qk, int64_t d_v) {
    att_problem p;
    att_problem_init(&p, batch, heads_q, heads_kv, seq, seq, d_qk, d_v, ATT_BF16);
    p.features |= ATT_LSE;
    return p;
}

static const char *chosen(const att_cuda_limits *gpu, const att_problem *p) {
    const att_limits limits = {.device = ATT_DEVICE_CUDA, .gpu = gpu, .allow_unattested = true};
    const att_kernel_row *row = att_select_find(&limits, &att_operation_backward, p);
    return row ? row->id : "none";
}

static void test_serves__head_dimensions__smallest_row_that_holds_them(void **state) {
    (void)state;
    static const struct {
        int64_t d_qk, d_v;
        const char *on_l4, *on_a100;
    } cases[] = {
        {64, 64, "bwd_sm80_bf16_d64_m64n128s2w8", "bwd_sm80_bf16_d64_m64n128s2w8"},
        {8, 40, "bwd_sm80_bf16_d64_m64n128s2w8", "bwd_sm80_bf16_d64_m64n128s2w8"},
        {96, 96, "bwd_sm80_bf16_d96_m64n64s1w8", "bwd_sm80_bf16_d96_m64n128s1w8"},
        {64, 128, "bwd_sm80_bf16_d128_m64n64s1w8", "bwd_sm80_bf16_d128_m64n128s1w8"},
        {192, 128, "bwd_sm80_bf16_d192v128_m32n64s2w8", "bwd_sm80_bf16_d192v128_m32n128s2w8"},
        {192, 192, "bwd_sm80_bf16_d192_m32n64s1w8", "bwd_sm80_bf16_d192_m32n64s2w8"},
        {256, 256, "bwd_sm80_bf16_d256_m32n32s1w4", "bwd_sm80_bf16_d256_m64n64s1w8"},
        {63, 64, "bwd_sm80_bf16_d64_general_m64n64s2w8",
         "bwd_sm80_bf16_d64_general_m64n64s2w8"},
        {129, 9, "bwd_sm80_bf16_d256_general_m32n32s1w4",
         "bwd_sm80_bf16_d256_general_m32n32s1w4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const att_problem p = problem(2, 8, 2, 1000, cases[i].d_qk, cases[i].d_v);
        assert_string_equal(chosen(&l4, &p), cases[i].on_l4);
        assert_string_equal(chosen(&a100, &p), cases[i].on_a100);
    }
}

/* Every feature is supported, by the general row if the plain one lacks it. */
static void test_serves__features__plain_or_general(void **state) {
    (void)state;
    static const char plain[] = "bwd_sm80_bf16_d128_m64n64s1w8";
    static const char general[] = "bwd_sm80_bf16_d128_general_m64n64s1w8";
    const att_problem good = problem(2, 8, 2, 1000, 128, 128);
    att_problem p = good;
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    p.window_left = 9;
    p.scale = -1.0f;
    p.dtype_grad = ATT_F32;
    p.features |= ATT_LENS_K | ATT_STARTS_K | ATT_SINKS;
    p.gradients = ATT_D_SINKS;
    assert_string_equal(chosen(&l4, &p), plain);
    p.softcap = 20.0f;
    assert_string_equal(chosen(&l4, &p), general);
    p = good;
    p.features |= ATT_ALIBI;
    assert_string_equal(chosen(&l4, &p), general);
    p = good;
    p.features |= ATT_BIAS;
    assert_string_equal(chosen(&l4, &p), general);
    p = good;
    p.dtype_o = ATT_F32;
    assert_string_equal(chosen(&l4, &p), general);
    p = good;
    p.alignment = 2;
    assert_string_equal(chosen(&l4, &p), general);
    p = good;
    p.grad_o.row += 4;
    assert_string_equal(chosen(&l4, &p), general);
    p = good;
    p.grad_q.row += 4; /* gradients are written two elements at a time */
    assert_string_equal(chosen(&l4, &p), plain);
    p = good;
    p.dtype = p.dtype_o = p.dtype_grad = ATT_F32;
    assert_string_equal(chosen(&l4, &p), "none");
}

static void refused(const att_problem *p, const char *kernel, const char *field,
                    const char *word) {
    const att_limits limits = {.device = ATT_DEVICE_CUDA, .gpu = &l4, .allow_unattested = true};
    att_refusal refusal;
    assert_false(
        att_row_serves(gpu_row_named(kernel), &limits, &att_operation_backward, p, &refusal));
    assert_string_equal(refusal.field, field);
    if (!strstr(refusal.why, word))
        fail_msg("%s: \"%s\" does not say \"%s\"", kernel, refusal.why, word);
}

static void test_serves__what_it_has_not__refused_by_field(void **state) {
    (void)state;
    static const char plain[] = "bwd_sm80_bf16_d128_m64n64s1w8";
    const att_problem good = problem(2, 8, 2, 1000, 128, 128);
    refused(&good, "bwd_sm80_f16_d128_m64n64s1w8", "dtype", "is for f16");
    refused(&good, "bwd_sm80_bf16_d64_m64n128s2w8", "d_qk", "above 64");
    refused(&good, "bwd_sm80_bf16_d128_m64n128s2w8", "cc", "8.9");
    refused(&good, "bwd_delta_sm80_bf16_d128", "role", "step");
    refused(&good, "bwd_sums_sm80", "role", "step");
    refused(&good, "bwd_bias_sm80_bf16_d128", "role", "step");
    att_problem p = good;
    p.d_v = 124;
    refused(&p, plain, "d_v", "multiple of 8");
    p = good;
    p.grad_o.row += 4;
    refused(&p, plain, "grad_o", "16");
    p = good;
    p.k.head += 1;
    refused(&p, plain, "k", "16");
    p = good;
    p.seq_k = INT32_MAX;
    refused(&p, plain, "seq_k", "32 bits");
}

/* Without evidence it is used only if unattested kernels are allowed. */
static void test_serves__unattested__off(void **state) {
    (void)state;
    const att_limits strict = {.device = ATT_DEVICE_CUDA, .gpu = &l4};
    const att_problem p = problem(1, 8, 8, 512, 128, 128);
    assert_null(att_select_find(&strict, &att_operation_backward, &p));
}

/* A block fits on every GPU that its row is for. */
static void test_shared__of_every_row__fits_its_targets(void **state) {
    (void)state;
    int seen = 0;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_cuda_kernel *k = att_registry_row(i)->cuda;
        if (!k || strncmp(k->id, "bwd_sm80", 8) != 0)
            continue;
        const int most = k->targets & ATT_SM86_89 ? 99 : k->targets & ATT_SM80 ? 163 : 227;
        assert_in_range(att_cuda_kernel_shared(k), 1, most << 10);
        seen++;
    }
    assert_true(seen > 20);
}

static void test_steps__types_and_dimensions__rows_of_their_own(void **state) {
    (void)state;
    att_problem p = problem(1, 2, 2, 64, 64, 64);
    assert_string_equal(att_backward_step_of(&att_family_bwd_delta, &p, true)->id,
                        "bwd_delta_sm80_bf16_d64");
    p = problem(1, 2, 2, 64, 192, 65);
    assert_string_equal(att_backward_step_of(&att_family_bwd_delta, &p, true)->id,
                        "bwd_delta_sm80_bf16_d128");
    assert_string_equal(att_backward_step_of(&att_family_bwd_bias, &p, true)->id,
                        "bwd_bias_sm80_bf16_d256");
    p.dtype = ATT_F16;
    assert_string_equal(att_backward_step_of(&att_family_bwd_bias, &p, true)->id,
                        "bwd_bias_sm80_f16_d256");
}

/* Enough pairs that eight key tiles of each fill the GPU, more if L2 holds their rows, and
 * never more than there are. */
static void test_section__pairs__fill_the_gpu(void **state) {
    (void)state;
    att_problem p = problem(1, 32, 32, 16384, 64, 64);
    assert_int_equal(att_backward_section(&l4, &p, 58, 128), 8);
    assert_int_equal(att_backward_section(&a100, &p, 216, 128), 27);
    p = problem(32, 16, 16, 512, 128, 128); /* 48 MiB / 2 over 512 KiB per pair */
    assert_int_equal(att_backward_section(&l4, &p, 58, 8), 48);
    p = problem(1, 4, 2, 512, 128, 128);
    assert_int_equal(att_backward_section(&l4, &p, 58, 8), 2);
    p = problem(0, 4, 2, 0, 128, 128);
    assert_int_equal(att_backward_section(&l4, &p, 58, 0), 1);
}

static void test_params__alignment__vectors_and_pairs(void **state) {
    (void)state;
    att_bwd_params params;
    const att_problem good = problem(2, 4, 2, 100, 64, 64);
    att_backward_params_of(&params, &good);
    assert_int_equal(params.flags, ATT_BWD_VECTOR | ATT_BWD_PAIRS);
    att_problem p = good;
    p.grad_o.head += 4;
    att_backward_params_of(&params, &p);
    assert_int_equal(params.flags, ATT_BWD_PAIRS);
    p = good;
    p.grad_k.row += 1;
    att_backward_params_of(&params, &p);
    assert_int_equal(params.flags, ATT_BWD_VECTOR);
    p = good;
    p.alignment = 4;
    att_backward_params_of(&params, &p);
    assert_int_equal(params.flags, ATT_BWD_PAIRS);
    p.dtype_grad = ATT_F32; /* two of them are eight bytes */
    att_backward_params_of(&params, &p);
    assert_int_equal(params.flags, 0);
}

static void test_tiles__of_users_rows__what_the_kernel_asks_for(void **state) {
    (void)state;
    char why[160];
    const att_family *f = gpu_row_named("bwd_sm80_bf16_d128_m64n128s2w8")->family;
    assert_true(f->tile_fits((const int[]){64, 128, 2, 8}, why, sizeof why));
    assert_true(f->tile_fits((const int[]){32, 64, 1, 8}, why, sizeof why));
    assert_true(f->tile_fits((const int[]){64, 128, 2, 4}, why, sizeof why));
    assert_false(f->tile_fits((const int[]){128, 128, 2, 8}, why, sizeof why));
    assert_non_null(strstr(why, "16, 32 or 64 rows"));
    assert_false(f->tile_fits((const int[]){64, 96, 2, 8}, why, sizeof why));
    assert_non_null(strstr(why, "n96"));
    assert_false(f->tile_fits((const int[]){64, 128, 3, 8}, why, sizeof why));
    assert_false(f->tile_fits((const int[]){64, 128, 2, 16}, why, sizeof why));
}

int main(void) {
    use_fake_nvrtc(); /* so that rows without machine code count as compilable */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serves__head_dimensions__smallest_row_that_holds_them),
        cmocka_unit_test(test_serves__features__plain_or_general),
        cmocka_unit_test(test_serves__what_it_has_not__refused_by_field),
        cmocka_unit_test(test_serves__unattested__off),
        cmocka_unit_test(test_shared__of_every_row__fits_its_targets),
        cmocka_unit_test(test_steps__types_and_dimensions__rows_of_their_own),
        cmocka_unit_test(test_section__pairs__fill_the_gpu),
        cmocka_unit_test(test_params__alignment__vectors_and_pairs),
        cmocka_unit_test(test_tiles__of_users_rows__what_the_kernel_asks_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
