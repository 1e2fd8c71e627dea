/* test_cuda_shares.c: decode of unequal lengths: the shares, what they are launched with, and
 * where they are chosen. */
#include <string.h>

#include "attention/cuda/decode_tiling.h"
#include "attention/cuda/shares.h"
#include "core/select.h"
#include "kernels/fwd_shares_params.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

enum { H200_SMS = 132, SHARES = 2 * H200_SMS };

static att_cuda_limits h200 = {
    .cc = 90, .sms = H200_SMS, .shared_per_block = 227 << 10, .shared_per_sm = 228 << 10};

static const att_limits limits = {
    .device = ATT_DEVICE_CUDA, .gpu = &h200, .allow_unattested = true};

/* seq_q = 1; keys of every sequence: as many as seq_k, or a length of its own. */
static att_problem decode_of(int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t seq_k,
                             int64_t d, unsigned features) {
    att_problem p;
    att_problem_init(&p, batch, heads_q, heads_kv, 1, seq_k, d, d, ATT_BF16);
    p.features |= features;
    return p;
}

static gpu_plan plan_of(const char *id, const att_problem *p) {
    gpu_plan plan;
    assert_ok(gpu_plan_cut(&plan, 0, gpu_row_named(id), p));
    return plan;
}

static void test_shares__cut__a_block_for_each_that_the_gpu_holds(void **state) {
    (void)state;
    const att_problem p = decode_of(16, 32, 8, 32768, 128, ATT_LENS_K);
    const gpu_plan plan = plan_of("decode_sm90_bf16_d128_shares_m8n16s3w8", &p);
    const att_cuda_tiling *t = &plan.tiling;
    assert_int_equal(t->shape.grid[0], SHARES);
    assert_int_equal(t->shape.grid[1], 1);
    assert_int_equal(t->shape.cluster, 0);
    assert_int_equal(t->combine_shape.grid[0], SHARES);
    assert_int_equal(t->combine_shape.grid[1], 8);
    assert_int_equal(t->combine_shape.threads, 32);
    /* Two parts of 8 rows per share: O, top and sum; and a tile that it leaves unfinished. */
    const size_t rows = (size_t)SHARES * 2 * 8;
    assert_true(plan.workspace >=
                rows * (128 + 2) * sizeof(float) + SHARES * sizeof(att_fwd_opened));
    assert_true(plan.workspace <
                rows * (128 + 2) * sizeof(float) + SHARES * sizeof(att_fwd_opened) + 3 * 256);
}

/* What the kernels were launched with. */
static att_fwd_shares_params launched[2];
static int launches;

static void record(const char *kernel, const CUlaunchConfig *config, const void *params,
                   size_t bytes) {
    assert_int_equal(bytes, sizeof launched[0]);
    assert_true(launches < 2);
    assert_int_equal(strncmp(kernel, "decode_join_", 12) == 0, launches == 1);
    assert_int_equal(config->gridDimX, SHARES);
    memcpy(&launched[launches++], params, bytes);
}

static void test_shares__run__two_launches_with_the_same_parameters(void **state) {
    (void)state;
    fake_cuda *fake = use_fake_cuda();
    static const struct {
        const char *id;
        int d, opening, prefetch, rows;
    } cases[] = {
        {"decode_sm90_bf16_d128_shares_m8n16s3w8", 128, 12, 128, 8},
        {"decode_sm90_bf16_d64_shares_m8n16s6w8", 64, 12, 256, 8},
        {"decode_sm90_bf16_d128_shares_m16n16s6w4", 128, 24, 128, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const att_problem p = decode_of(3, 32, 8, 900, cases[i].d, ATT_LENS_K);
        const gpu_plan plan = plan_of(cases[i].id, &p);
        const att_args args = {.size = sizeof args};
        char memory[1]; /* an address: nothing is computed */
        fake->run = record;
        launches = 0;
        assert_ok(gpu_plan_run(&plan, &args, memory, NULL));
        fake->run = NULL;
        assert_int_equal(launches, 2);
        assert_memory_equal(&launched[0], &launched[1], sizeof launched[0]);
        assert_int_equal(launched[0].shares, SHARES);
        assert_int_equal(launched[0].opening, cases[i].opening); /* 384 keys */
        assert_int_equal(launched[0].prefetch, cases[i].prefetch);
        assert_int_equal(launched[0].tile_rows, cases[i].rows);
        assert_ptr_equal(launched[0].fwd.partial_o, memory);
        const char *weights = (const char *)launched[0].fwd.partial_sums;
        assert_true(weights - memory >=
                    (ptrdiff_t)sizeof(float) * SHARES * 2 * cases[i].rows * cases[i].d);
        assert_true((const char *)launched[0].opened > weights);
    }
}

static void test_shares__nothing_to_compute__no_launch(void **state) {
    (void)state;
    fake_cuda *fake = use_fake_cuda();
    const att_problem p = decode_of(0, 32, 8, 900, 128, ATT_LENS_K);
    const gpu_plan plan = plan_of("decode_sm90_bf16_d128_shares_m8n16s3w8", &p);
    const att_args args = {.size = sizeof args};
    const long before = fake->launches;
    assert_int_equal(plan.workspace, 0);
    assert_ok(gpu_plan_run(&plan, &args, NULL, NULL));
    assert_int_equal(fake->launches, before);
}

/* As measured on an H200: docs/notebook/decode.md. */
static void test_shares__choice__where_they_end_sooner(void **state) {
    (void)state;
    static const struct {
        int64_t batch, heads_q, heads_kv, seq_k, d;
        unsigned features;
        bool shares;
    } cases[] = {
        {11, 12, 4, 100003, 64, 0, true},
        {5, 14, 2, 100003, 64, 0, true},
        {128, 1, 1, 16384, 128, 0, true},
        {17, 14, 2, 32768, 128, 0, true},
        {8, 5, 1, 131072, 64, 0, false},
        {1, 16, 8, 131072, 128, 0, false},
        {11, 14, 2, 8192, 128, 0, false},
        {8, 32, 8, 8192, 128, 0, false},
        {64, 32, 8, 8192, 128, 0, false},
        {256, 40, 8, 128, 64, 0, false},
        {1, 32, 8, 8192, 128, 0, false},
        {16, 32, 8, 32768, 64, ATT_LENS_K, true},
        {64, 32, 8, 32768, 128, ATT_LENS_K, true},
        {16, 32, 8, 32768, 128, ATT_CU_SEQLENS_K, true},
        {16, 32, 8, 32768, 128, ATT_STARTS_K, true},
        {2, 32, 8, 1024, 128, ATT_LENS_K, false},
        {8, 32, 8, 1024, 128, ATT_LENS_K, false},
        {1, 32, 8, 8192, 128, ATT_LENS_K, false}, /* one sequence is equal to itself */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const att_problem p = decode_of(cases[i].batch, cases[i].heads_q, cases[i].heads_kv,
                                        cases[i].seq_k, cases[i].d, cases[i].features);
        const att_kernel_row *row = att_select_find(&limits, &att_operation_attention, &p);
        assert_non_null(row);
        const bool shares = row->family == gpu_family_of("fwd_decode_shares");
        if (shares != cases[i].shares ||
            (!shares && row->family != gpu_family_of("fwd_decode_sm90")))
            fail_msg("case %zu: %s", i, row->id);
        assert_int_equal(row->cuda->tile_m, 8);
        assert_int_equal(row->cuda->d_qk, cases[i].d);
    }
}

static void test_shares__refusals__say_why(void **state) {
    (void)state;
    const att_kernel_row *row = gpu_row_named("decode_sm90_bf16_d128_shares_m8n16s3w8");
    att_refusal refusal;
    att_problem p = decode_of(1 << 18, 8, 8, 1 << 17, 128, ATT_LENS_K);
    assert_false(att_row_serves(row, &limits, &att_operation_attention, &p, &refusal));
    assert_string_equal(refusal.field, "seq_k");
    assert_non_null(strstr(refusal.why, "32 bits"));
    p = decode_of(2, 72, 8, 1024, 128, ATT_LENS_K);
    assert_false(att_row_serves(row, &limits, &att_operation_attention, &p, &refusal));
    assert_string_equal(refusal.field, "seq_q");
}

static void test_shares__joined__by_their_own_kernel(void **state) {
    (void)state;
    const att_kernel_row *row = gpu_row_named("decode_sm90_bf16_d128_shares_m8n16s3w8");
    const att_kernel_row *join = gpu_row_named("decode_join_sm90_d128");
    const att_problem p = decode_of(2, 32, 8, 1024, 128, ATT_LENS_K);
    assert_ptr_equal(att_cuda_join_of(row->cuda, true), join->cuda);
    const att_kernel_row *other = gpu_row_named("decode_sm90_bf16_d128_m8n16s3w8");
    const att_kernel_row *combine = gpu_row_named("combine_sm80_d128");
    assert_true(join->family->steps_in(join, row, &p));
    assert_false(join->family->steps_in(join, other, &p));
    assert_false(combine->family->steps_in(combine, row, &p));
    assert_true(combine->family->steps_in(combine, other, &p));
    att_cuda_kernel wide = *row->cuda;
    wide.d_v = 512;
    assert_null(att_cuda_join_of(&wide, true));
}

/* The time does not depend on lengths, which a plan does not know; the ranking does. */
static void test_shares__estimate__below_the_time_if_lengths_are_unequal(void **state) {
    (void)state;
    const att_cuda_kernel *k = gpu_row_named("decode_sm90_bf16_d128_shares_m8n16s3w8")->cuda;
    const att_problem equal = decode_of(16, 32, 8, 32768, 128, 0);
    const att_problem unequal = decode_of(16, 32, 8, 32768, 128, ATT_LENS_K);
    const double ns = att_cuda_shares_ns(k, &equal, H200_SMS);
    assert_true(ns > 16.0 * 8.0 * 32768.0 * 512.0 / 4500.0);
    assert_true(att_cuda_shares_ns(k, &unequal, H200_SMS) == ns);
    assert_true(att_cuda_shares_estimate(k, &equal, H200_SMS) == ns);
    assert_true(att_cuda_shares_estimate(k, &unequal, H200_SMS) < 0.7 * ns);
    const att_problem empty = decode_of(0, 32, 8, 32768, 128, 0);
    assert_true(att_cuda_shares_estimate(k, &empty, H200_SMS) < 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares__cut__a_block_for_each_that_the_gpu_holds),
        cmocka_unit_test(test_shares__run__two_launches_with_the_same_parameters),
        cmocka_unit_test(test_shares__nothing_to_compute__no_launch),
        cmocka_unit_test(test_shares__choice__where_they_end_sooner),
        cmocka_unit_test(test_shares__refusals__say_why),
        cmocka_unit_test(test_shares__joined__by_their_own_kernel),
        cmocka_unit_test(test_shares__estimate__below_the_time_if_lengths_are_unequal),
    };
    return cmocka_run_group_tests(tests, use_fake_gpu, NULL);
}
