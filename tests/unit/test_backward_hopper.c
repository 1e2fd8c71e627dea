/* test_backward_hopper.c: which gradients bwd_sm90 and bwd_sm90_wide support, in which order
 * they take their tiles of keys, and how many sums of dQ they keep. On an H200 that the
 * selector sees through its limits. */
#include <string.h>

#include "backward/cuda/bwd_hopper.h"
#include "core/select.h"
#include "cuda/shape.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

enum { SMS = 132 };

static const att_cuda_limits h200 = {
    .cc = 90, .sms = SMS, .shared_per_block = 227 << 10, .shared_per_sm = 228 << 10};
static const att_limits limits = {
    .device = ATT_DEVICE_CUDA, .gpu = &h200, .allow_unattested = true};

static const char d64[] = "bwd_sm90_bf16_d64_m128n128s2";
static const char d96[] = "bwd_sm90_bf16_d96_m64n128s2";
static const char d128[] = "bwd_sm90_bf16_d128_m64n128s2";
static const char d192[] = "bwd_sm90_wide_bf16_d192_m64n64s2";
static const char d192v128[] = "bwd_sm90_wide_bf16_d192v128_m64n128s2";
static const char d256[] = "bwd_sm90_wide_bf16_d256_m64n64s2";

static att_problem problem(int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t seq,
                           int64_t d) {
    att_problem p;
    att_problem_init(&p, batch, heads_q, heads_kv, seq, seq, d, d, ATT_BF16);
    p.features |= ATT_LSE;
    return p;
}

static void served_by(const att_problem *p, const char *kernel) {
    att_refusal refusal;
    if (!att_row_serves(gpu_row_named(kernel), &limits, &att_operation_backward, p, &refusal))
        fail_msg("%s refuses %s: %s", kernel, refusal.field, refusal.why);
}

static void refused_by(const att_problem *p, const char *kernel, const char *field,
                       const char *word) {
    att_refusal refusal;
    assert_false(
        att_row_serves(gpu_row_named(kernel), &limits, &att_operation_backward, p, &refusal));
    assert_string_equal(refusal.field, field);
    if (!strstr(refusal.why, word))
        fail_msg("%s: \"%s\" does not say \"%s\"", kernel, refusal.why, word);
}

static void test_serves__plain_gradients__chosen_ahead_of_others(void **state) {
    (void)state;
    static const struct {
        int64_t d;
        const char *kernel;
    } cases[] = {{64, d64},   {56, d64},   {128, d128}, {96, d96},  {104, d128},
                 {136, d192}, {192, d192}, {200, d256}, {256, d256}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const att_problem p = problem(2, 8, 2, 1000, cases[i].d);
        const att_kernel_row *row = att_select_find(&limits, &att_operation_backward, &p);
        assert_non_null(row);
        assert_string_equal(row->id, cases[i].kernel);
    }
}

static void test_serves__columns_of_v_are_fewer__a_row_of_its_own(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 2, 8, 8, 1000, 1000, 192, 128, ATT_BF16);
    p.features |= ATT_LSE;
    assert_string_equal(att_select_find(&limits, &att_operation_backward, &p)->id, d192v128);
    refused_by(&p, d192, "d_v", "pad");
    att_problem_init(&p, 2, 8, 8, 1000, 1000, 256, 64, ATT_BF16);
    p.features |= ATT_LSE;
    refused_by(&p, d256, "d_v", "pad");
}

/* Every row is followed by one that counts tiles and columns in the same way. */
static void test_finish__of_a_row__has_its_tile(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *finish;
    } cases[] = {{d64, "bwd_sm90_finish_d64_m128"},
                 {d96, "bwd_sm90_finish_d128_m64"},
                 {d192, "bwd_sm90_wide_finish_d192_m64n64"},
                 {d192v128, "bwd_sm90_wide_finish_d192_m64n128"},
                 {d256, "bwd_sm90_wide_finish_d256_m64n64"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const att_kernel_row *row = gpu_row_named(cases[i].kernel),
                             *finish = gpu_row_named(cases[i].finish);
        assert_string_equal(att_backward_hopper_finish(row, true)->id, cases[i].finish);
        assert_true(finish->family->steps_in(finish, row, NULL));
        assert_false(finish->family->steps_in(finish, gpu_row_named(d128), NULL) &&
                     row->cuda->d_qk > 128);
    }
}

static void test_serves__masks_lengths_and_types__served(void **state) {
    (void)state;
    static const struct {
        int64_t d;
        const char *kernel;
    } cases[] = {{128, d128}, {192, d192}, {256, d256}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        att_problem p = problem(2, 8, 2, 1000, cases[i].d);
        p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
        served_by(&p, cases[i].kernel);
        p.window_left = 100;
        served_by(&p, cases[i].kernel);
        p.features |= ATT_LENS_K | ATT_STARTS_K | ATT_SINKS;
        p.gradients = ATT_D_SINKS;
        served_by(&p, cases[i].kernel);
        p.dtype_grad = ATT_F32;
        served_by(&p, cases[i].kernel);
    }
}

static void test_serves__what_it_has_not__refused_by_field(void **state) {
    (void)state;
    const att_problem good = problem(2, 8, 2, 1000, 128);
    served_by(&good, d128);
    refused_by(&good, "bwd_sm90_f16_d128_m64n128s2", "dtype", "is for f16");
    refused_by(&good, d64, "d_qk", "above 64");
    refused_by(&good, "bwd_sm90_finish_d128_m64", "role", "rounds");
    att_problem p = problem(2, 8, 2, 1000, 64);
    refused_by(&p, d128, "d_qk", "pad");
    p = problem(2, 8, 2, 1000, 124);
    refused_by(&p, d128, "d_qk", "multiple of 8");
    p = good;
    p.dtype_o = ATT_F32;
    refused_by(&p, d128, "dtype_o", "f32");
    p = good;
    p.softcap = 20.0f;
    refused_by(&p, d128, "softcap", "softcap");
    served_by(&p, "bwd_sm90_bf16_d128_softcap_m64n128s2");
    p.features |= ATT_ALIBI;
    refused_by(&p, "bwd_sm90_bf16_d128_softcap_m64n128s2", "features", "ALiBi");
    p = good;
    p.scale = -1.0f;
    refused_by(&p, d128, "scale", "above 0");
    p = good;
    p.features |= ATT_ALIBI;
    refused_by(&p, d128, "features", "ALiBi");
    served_by(&p, "bwd_sm90_bf16_d128_alibi_m64n128s2");
    p.gradients = ATT_D_ALIBI;
    refused_by(&p, "bwd_sm90_bf16_d128_alibi_m64n128s2", "gradients", "d_alibi");
    refused_by(&good, "bwd_sm90_bf16_d128_alibi_m64n128s2", "features", "is for problems with");
    p = good;
    p.features |= ATT_BIAS;
    refused_by(&p, d128, "features", "bias");
    p = good;
    p.alignment = 8;
    refused_by(&p, d128, "alignment", "16");
    p = good;
    p.seq_q = INT32_MAX;
    refused_by(&p, d128, "seq_q", "32 bits");
}

/* Key tiles whose first row lies past the last one, but inside its block of rows. */
static void test_serves__rows_that_end_inside_a_block__served(void **state) {
    (void)state;
    att_problem p = problem(2, 8, 2, 1000, 128);
    p.window_right = 20;
    p.align = ATT_ALIGN_TOP_LEFT;
    served_by(&p, d128);
    p.seq_k = 1500;
    served_by(&p, d128);
    p.align = ATT_ALIGN_BOTTOM_RIGHT;
    served_by(&p, d128);
    p.window_right = -1;
    p.causal = ATT_CAUSAL_TOP_LEFT;
    served_by(&p, d128);
    p.features |= ATT_STARTS_K;
    served_by(&p, d128);
    p.seq_k = 1000;
    served_by(&p, d128);
    p.q_offset = 3;
    served_by(&p, d128);
    p.q_offset = INT64_C(1) << 40; /* sees every key: no mask is left */
    served_by(&p, d128);
    p.window_left = (INT64_C(1) << 28) + 1;
    p.features |= ATT_Q_OFFSETS;
    refused_by(&p, d128, "window_left", "2^28");
}

static void test_serves__strides__refused_by_the_tensor(void **state) {
    (void)state;
    const att_problem good = problem(2, 8, 2, 1000, 128);
    att_problem p = good;
    att_strides *const all[] = {&p.q,      &p.k,      &p.v,      &p.o,
                                &p.grad_o, &p.grad_q, &p.grad_k, &p.grad_v};
    static const char *const names[] = {"q",      "k",      "v",      "o",
                                        "grad_o", "grad_q", "grad_k", "grad_v"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        p = good;
        all[i]->row += 4;
        refused_by(&p, d128, names[i], "16 bytes");
    }
    p = good;
    p.k.head = 0;
    refused_by(&p, d128, "k", "tensor maps");
    p = good;
    p.grad_v.batch = INT64_C(1) << 41;
    refused_by(&p, d128, "grad_v", "tensor maps");
}

/* It has evidence, and so have the kernels before and after it: nothing needs to be allowed. */
static void test_serves__nothing_unattested_allowed__chosen(void **state) {
    (void)state;
    att_limits strict = limits;
    strict.allow_unattested = false;
    const att_problem p = problem(1, 8, 8, 512, 128);
    const att_kernel_row *row = att_select_find(&strict, &att_operation_backward, &p);
    assert_non_null(row);
    assert_non_null(strstr(row->id, "bwd_sm90"));
}

/* Rows for more columns have none yet. */
static void test_serves__above_128_columns__where_evidence_is_asked_for(void **state) {
    (void)state;
    att_limits strict = limits;
    strict.allow_unattested = false;
    const att_problem p = problem(1, 8, 8, 512, 192);
    assert_string_equal(att_select_find(&strict, &att_operation_backward, &p)->id, d192);
    served_by(&p, d192);
}

/* Between a unit's key tiles are those of so many other units that the one waited for is some
 * steps ahead, and no more. */
/* Long walks: few units, so that tiles of one follow each other closely; short ones: a few
 * tiles of each at once; in sections of nearly equal size. */
static void test_section__lengths_and_masks__tiles_follow_each_other(void **state) {
    (void)state;
    static const struct {
        int64_t batch, heads, seq;
        att_causal causal;
        int64_t section;
    } cases[] = {{1, 16, 16384, ATT_CAUSAL_NONE, 3},     {1, 16, 16384, ATT_CAUSAL_TOP_LEFT, 8},
                 {4, 16, 4096, ATT_CAUSAL_NONE, 8},      {4, 16, 4096, ATT_CAUSAL_TOP_LEFT, 32},
                 {32, 16, 512, ATT_CAUSAL_TOP_LEFT, 32}, {1, 34, 512, ATT_CAUSAL_NONE, 17}};
    const att_cuda_kernel *k = gpu_row_named(d128)->cuda;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        att_problem p =
            problem(cases[i].batch, cases[i].heads, cases[i].heads, cases[i].seq, 128);
        p.causal = cases[i].causal;
        assert_int_equal(att_backward_hopper_section(k, &p, SMS), cases[i].section);
    }
}

static void test_section__one_head__one(void **state) {
    (void)state;
    const att_problem p = problem(1, 1, 1, 300, 128);
    assert_int_equal(att_backward_hopper_section(gpu_row_named(d128)->cuda, &p, SMS), 1);
}

/* If all items start at once, dQ has several sums; otherwise one. */
static void test_sets__few_items__several(void **state) {
    (void)state;
    const att_cuda_kernel *k = gpu_row_named(d64)->cuda;
    att_problem p = problem(1, 8, 8, 2048, 64); /* 128 items */
    assert_int_equal(att_backward_hopper_sets(k, &p, SMS), 3);
    p = problem(1, 8, 8, 256, 64);
    assert_int_equal(att_backward_hopper_sets(k, &p, SMS), 2);
    p = problem(1, 8, 8, 100, 64);
    assert_int_equal(att_backward_hopper_sets(k, &p, SMS), 1);
    p = problem(2, 8, 8, 2048, 64);
    assert_int_equal(att_backward_hopper_sets(k, &p, SMS), 1);
}

static void test_shared__of_a_block__as_the_kernel_has_it(void **state) {
    (void)state;
    assert_int_equal(att_cuda_kernel_shared(gpu_row_named(d128)->cuda), 230912);
    assert_int_equal(att_cuda_kernel_shared(gpu_row_named(d64)->cuda), 231936);
    assert_int_equal(att_cuda_kernel_shared(gpu_row_named(d192)->cuda), 230912);
    assert_int_equal(att_cuda_kernel_shared(gpu_row_named(d192v128)->cuda), 230912);
    assert_int_equal(att_cuda_kernel_shared(gpu_row_named(d256)->cuda), 230912);
}

static void test_tiles__of_users_rows__what_the_sums_are_laid_out_for(void **state) {
    (void)state;
    char why[160];
    const att_family *f = gpu_row_named(d128)->family;
    assert_true(f->tile_fits((const int[]){64, 128, 2, 12}, why, sizeof why));
    assert_false(f->tile_fits((const int[]){96, 128, 2, 12}, why, sizeof why));
    assert_non_null(strstr(why, "64 or 128 rows"));
    assert_false(f->tile_fits((const int[]){64, 64, 2, 12}, why, sizeof why));
    assert_false(f->tile_fits((const int[]){64, 128, 2, 8}, why, sizeof why));
    f = gpu_row_named(d256)->family;
    assert_true(f->tile_fits((const int[]){64, 64, 2, 12}, why, sizeof why));
    assert_true(f->tile_fits((const int[]){64, 128, 1, 12}, why, sizeof why));
    assert_false(f->tile_fits((const int[]){128, 64, 2, 12}, why, sizeof why));
    assert_non_null(strstr(why, "64 or 128 keys"));
    assert_false(f->tile_fits((const int[]){64, 64, 3, 12}, why, sizeof why));
}

int main(void) {
    use_fake_nvrtc(); /* so that rows without machine code count as compilable */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serves__plain_gradients__chosen_ahead_of_others),
        cmocka_unit_test(test_serves__columns_of_v_are_fewer__a_row_of_its_own),
        cmocka_unit_test(test_finish__of_a_row__has_its_tile),
        cmocka_unit_test(test_serves__masks_lengths_and_types__served),
        cmocka_unit_test(test_serves__what_it_has_not__refused_by_field),
        cmocka_unit_test(test_serves__rows_that_end_inside_a_block__served),
        cmocka_unit_test(test_serves__strides__refused_by_the_tensor),
        cmocka_unit_test(test_serves__nothing_unattested_allowed__chosen),
        cmocka_unit_test(test_serves__above_128_columns__where_evidence_is_asked_for),
        cmocka_unit_test(test_section__lengths_and_masks__tiles_follow_each_other),
        cmocka_unit_test(test_section__one_head__one),
        cmocka_unit_test(test_sets__few_items__several),
        cmocka_unit_test(test_shared__of_a_block__as_the_kernel_has_it),
        cmocka_unit_test(test_tiles__of_users_rows__what_the_sums_are_laid_out_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
