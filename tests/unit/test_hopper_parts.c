/* test_hopper_parts.c: into how many parts fwd_sm90 splits the keys, and for which problems. On
 * an H200 that the selector sees through its limits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/cuda/hopper.h"
#include "attention/cuda/hopper_choice.h"
#include "attention/cuda/hopper_parts.h"
#include "core/select.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

enum { SMS = 132 };

static const att_cuda_limits h200 = {
    .cc = 90, .sms = SMS, .shared_per_block = 227 << 10, .shared_per_sm = 228 << 10};
static const att_limits limits = {.device = ATT_DEVICE_CUDA, .gpu = &h200};

static att_problem problem(int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t seq_q,
                           int64_t seq_k, int64_t d) {
    att_problem p;
    att_problem_init(&p, batch, heads_q, heads_kv, seq_q, seq_k, d, d, ATT_BF16);
    return p;
}

static const att_kernel_row *split_row(int64_t d) {
    char id[64];
    snprintf(id, sizeof id, "fwd_sm90_bf16_d%d_split_m128n%ds%d", (int)d, d == 256 ? 64 : 128,
             d == 64 ? 4 : 2);
    return gpu_row_named(id);
}

static int parts_of(const att_problem *p) {
    return att_cuda_hopper_parts(split_row(p->d_qk), SMS, p).count;
}

static bool is_split(const att_problem *p) {
    const att_kernel_row *row = att_select_find(&limits, &att_operation_attention, p);
    assert_non_null(row);
    return row->cuda->role == ATT_ROLE_SPLIT;
}

/* The parts of all tiles of rows keep the SMs busy, in one round or a few. */
static void test_parts__few_tiles__fill_the_gpu(void **state) {
    (void)state;
    static const int64_t dims[] = {64, 128, 256};
    for (size_t i = 0; i < 3; i++) {
        const att_problem p = problem(1, 16, 4, 64, 16384, dims[i]); /* 8 tiles of rows */
        const int parts = parts_of(&p);
        assert_in_range(8 * parts, SMS * 3 / 4, SMS);
    }
}

static void test_parts__few_keys__no_part_without_any(void **state) {
    (void)state;
    for (int64_t keys = 129; keys < 1500; keys += 97) {
        const att_problem p = problem(1, 1, 1, 64, keys, 128);
        const int parts = parts_of(&p);
        assert_in_range(parts, 2, (keys + 127) / 128);
    }
}

static void test_parts__longest_keys__no_more_than_are_merged(void **state) {
    (void)state;
    const att_problem p = problem(1, 1, 1, 64, 1 << 28, 128);
    assert_in_range(parts_of(&p), 64, 128);
}

/* More SMs never take longer, more keys never less time. */
static void test_parts__sms_and_keys__times_follow(void **state) {
    (void)state;
    const att_kernel_row *row = split_row(128);
    double before = INFINITY;
    for (int sms = 4; sms <= 264; sms += 4) {
        const att_problem p = problem(1, 32, 8, 64, 20000, 128);
        const double ns = att_cuda_hopper_parts(row, sms, &p).ns;
        assert_true(ns <= before);
        before = ns;
    }
    before = 0.0;
    for (int64_t keys = 256; keys < 100000; keys = keys * 3 / 2) {
        const att_problem p = problem(1, 32, 8, 64, keys, 128);
        const double ns = att_cuda_hopper_parts(row, SMS, &p).ns;
        assert_true(ns > before);
        before = ns;
    }
}

/* A user's row has no times; it is split according to those of the tile that it replaces. */
static void test_parts__no_times__those_of_the_usual_tile(void **state) {
    (void)state;
    att_kernel_row row = *split_row(128);
    row.times = (att_row_times){.tile = 0};
    const att_problem p = problem(1, 32, 8, 64, 16384, 128);
    assert_int_equal(att_cuda_hopper_parts(&row, SMS, &p).count, parts_of(&p));
}

static void test_choice__new_rows_over_a_cache__split(void **state) {
    (void)state;
    static const int64_t rows[] = {32, 64, 128}, dims[] = {64, 128, 256};
    for (size_t i = 0; i < 3; i++)
        for (size_t r = 0; r < 3; r++) {
            att_problem p = problem(1, 32, 8, rows[r], 16384, dims[i]);
            assert_true(is_split(&p));
            p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
            assert_true(is_split(&p));
            p.features = ATT_LENS_K;
            assert_true(is_split(&p));
            p.features = ATT_PAGED;
            p.page_size = 128;
            p.num_pages = 128;
            assert_true(is_split(&p));
        }
}

static void test_choice__few_heads_with_long_keys__split(void **state) {
    (void)state;
    att_problem p = problem(1, 1, 1, 4096, 4096, 128);
    assert_true(is_split(&p));
    p.causal = ATT_CAUSAL_TOP_LEFT;
    assert_true(is_split(&p));
    p = problem(1, 1, 1, 8192, 8192, 128);
    assert_true(is_split(&p));
}

/* If tiles of rows fill the GPU, and in decode, nothing changes. */
static void test_choice__enough_tiles_or_one_row__not_split(void **state) {
    (void)state;
    static const struct {
        int64_t batch, heads, rows, keys, d;
    } cases[] = {
        {32, 16, 512, 512, 128}, {4, 16, 4096, 4096, 128}, {1, 16, 16384, 16384, 128},
        {8, 32, 2048, 2048, 64}, {1, 8, 128, 128, 64},     {2, 8, 512, 512, 64},
        {1, 8, 2048, 2048, 64},  {1, 8, 2048, 2048, 128},  {1, 32, 1, 65536, 128},
        {8, 8, 2048, 2048, 256}, {1, 8, 1024, 1024, 128},  {4, 8, 1024, 1024, 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int causal = 0; causal < 2; causal++) {
            att_problem p = problem(cases[i].batch, cases[i].heads, cases[i].heads,
                                    cases[i].rows, cases[i].keys, cases[i].d);
            p.causal = causal ? ATT_CAUSAL_BOTTOM_RIGHT : ATT_CAUSAL_NONE;
            if (is_split(&p))
                fail_msg("case %zu is split", i);
        }
}

static void test_choice__one_tile_of_keys__refused_by_name(void **state) {
    (void)state;
    const att_problem p = problem(1, 32, 8, 64, 128, 128);
    att_refusal refusal;
    assert_false(
        att_row_serves(split_row(128), &limits, &att_operation_attention, &p, &refusal));
    assert_string_equal(refusal.field, "seq_k");
    assert_non_null(strstr(refusal.why, "one tile holds all 128"));
}

/* O in float32 from 16-bit inputs, as a ring of ranks asks for it: in one part if tiles of rows
 * fill the GPU. */
static void test_choice__results_in_float32__split(void **state) {
    (void)state;
    static const struct {
        int64_t d;
        const char *id;
    } cases[] = {{64, "fwd_sm90_bf16_d64_split_m128n128s4"},
                 {96, "fwd_sm90_bf16_d128_split_m128n128s2"},
                 {128, "fwd_sm90_bf16_d128_split_m128n128s2"},
                 {256, "fwd_sm90_bf16_d256_split_m128n64s2"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int causal = 0; causal < 2; causal++) {
            att_problem p = problem(1, 8, 8, 8192, 8192, cases[i].d);
            p.features = ATT_LSE;
            p.dtype_o = ATT_F32;
            p.causal = causal ? ATT_CAUSAL_BOTTOM_RIGHT : ATT_CAUSAL_NONE;
            const att_kernel_row *row = att_select_find(&limits, &att_operation_attention, &p);
            assert_string_equal(row->id, cases[i].id);
            assert_int_equal(att_cuda_hopper_parts(row, SMS, &p).count, 1);
            p.heads_q = p.heads_kv = 1;
            assert_true(is_split(&p));
            p.seq_q = 256;
            assert_true(is_split(&p));
            assert_true(att_cuda_hopper_parts(row, SMS, &p).count > 8);
            p.seq_q = p.seq_k = 40; /* one tile of keys */
            assert_true(is_split(&p));
            assert_int_equal(att_cuda_hopper_parts(row, SMS, &p).count, 1);
        }
    att_problem p = problem(1, 8, 8, 8192, 8192, 128);
    p.dtype_o = ATT_F16;
    att_refusal refusal;
    assert_false(
        att_row_serves(split_row(128), &limits, &att_operation_attention, &p, &refusal));
    assert_string_equal(refusal.field, "dtype_o");
    assert_non_null(strstr(refusal.why, "bf16, as Q is, or f32, not f16"));
}

/* Twice as many bytes of O take their time. */
static void test_parts__results_in_float32__counted(void **state) {
    (void)state;
    att_problem p = problem(1, 1, 1, 2048, 65536, 128);
    const att_cuda_parts narrow = att_cuda_hopper_parts(split_row(128), SMS, &p);
    p.dtype_o = ATT_F32;
    const att_cuda_parts wide = att_cuda_hopper_parts(split_row(128), SMS, &p);
    assert_int_equal(wide.count, narrow.count);
    assert_true(wide.ns > narrow.ns);
}

/* With several tiles of rows per K/V head, decode reads the keys again for each. */
static void test_choice__decode__while_its_tiles_are_few(void **state) {
    (void)state;
    att_problem p = problem(1, 32, 8, 4, 8192, 128);
    assert_int_equal(att_select_find(&limits, &att_operation_attention, &p)->cuda->role,
                     ATT_ROLE_DECODE);
    p.seq_q = 16;
    assert_true(is_split(&p));
}

int main(void) {
    use_fake_nvrtc(); /* so that rows without machine code count as compilable */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts__few_tiles__fill_the_gpu),
        cmocka_unit_test(test_parts__few_keys__no_part_without_any),
        cmocka_unit_test(test_parts__longest_keys__no_more_than_are_merged),
        cmocka_unit_test(test_parts__sms_and_keys__times_follow),
        cmocka_unit_test(test_parts__no_times__those_of_the_usual_tile),
        cmocka_unit_test(test_choice__new_rows_over_a_cache__split),
        cmocka_unit_test(test_choice__few_heads_with_long_keys__split),
        cmocka_unit_test(test_choice__enough_tiles_or_one_row__not_split),
        cmocka_unit_test(test_choice__one_tile_of_keys__refused_by_name),
        cmocka_unit_test(test_choice__results_in_float32__split),
        cmocka_unit_test(test_parts__results_in_float32__counted),
        cmocka_unit_test(test_choice__decode__while_its_tiles_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
