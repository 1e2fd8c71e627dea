/* test_cuda_tiling.c: problems in the form that kernels take, blocks per SM, and how the keys
 * are split. */
#include <stdlib.h>
#include <string.h>

#include "attention/cuda/params.h"
#include "cuda/occupancy.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

static const unsigned hardest = 0x7fffffffu; /* the largest number that is ever divided */

/* The division as the kernels do it. */
static unsigned divided(unsigned n, att_fwd_divisor d) {
    return d.value == 1 ? n : (unsigned)((uint64_t)n * d.multiplier >> 32) >> d.shift;
}

static void test_divisor__every_kind_of_number__exact(void **state) {
    (void)state;
    static const unsigned values[] = {
        1,   2,    3,     5,       7,       8,        9,          12,
        31,  32,   33,    641,     1000,    65535,    65536,      65537,
        715, 8300, 99991, 1 << 20, 6700417, 1u << 30, 0x7ffffffe, 0x7fffffff};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const unsigned value = values[i];
        const att_fwd_divisor d = att_cuda_divisor(value);
        for (unsigned n = 0; n < 3000; n++)
            assert_int_equal(divided(n, d), n / value);
        /* Next to multiples a rounded reciprocal would be wrong first. */
        for (unsigned k = 1; k <= 2000; k++) {
            const unsigned multiple = hardest / value / k * value;
            assert_int_equal(divided(multiple, d), multiple / value);
            if (multiple > 0)
                assert_int_equal(divided(multiple - 1, d), (multiple - 1) / value);
        }
        assert_int_equal(divided(hardest, d), hardest / value);
    }
}

static void test_params__masks__in_the_kernels_terms(void **state) {
    (void)state;
    att_problem p;
    att_fwd_params f;
    att_problem_init(&p, 2, 8, 2, 100, 300, 64, 64, ATT_BF16);
    att_cuda_params_of(&f, &p);
    assert_int_equal(f.group, 4);
    assert_int_equal(f.window_left, -1);
    assert_int_equal(f.window_right, -1);
    assert_int_equal(f.flags, ATT_FWD_VECTOR);
    assert_near((double)f.scale_log2, 0.125 * 1.4426950408889634, 1e-7);

    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    p.window_left = 20;
    p.window_right = 7; /* causal is the narrower */
    att_cuda_params_of(&f, &p);
    assert_int_equal(f.window_left, 20);
    assert_int_equal(f.window_right, 0);
    assert_true(f.flags & ATT_FWD_BOTTOM_RIGHT);

    p.window_left = INT64_MAX; /* hides nothing, and does not fit in 32 bits */
    p.softcap = 50.0f;
    p.q.row += 1; /* rows no longer start at 16 bytes */
    att_cuda_params_of(&f, &p);
    assert_int_equal(f.window_left, -1);
    assert_false(f.flags & ATT_FWD_VECTOR);
    assert_near((double)f.scale_log2, 0.125 / 50.0, 1e-9);
}

static const att_cuda_limits h200 = {.cc = 90,
                                     .sms = 132,
                                     .warps_per_sm = 64,
                                     .blocks_per_sm = 32,
                                     .registers_per_sm = 65536,
                                     .registers_per_block = 65536,
                                     .shared_per_sm = 233472,
                                     .shared_reserved = 1024};

static void test_occupancy__each_limit__binds(void **state) {
    (void)state;
    att_cuda_code code = {.registers = 255};
    att_cuda_shape shape = {.threads = 128, .shared = 98304};
    assert_int_equal(att_cuda_blocks_per_sm(&h200, &code, &shape),
                     2); /* registers and shared */
    code.registers = 32;
    assert_int_equal(att_cuda_blocks_per_sm(&h200, &code, &shape), 2); /* shared */
    shape.shared = 1024;
    assert_int_equal(att_cuda_blocks_per_sm(&h200, &code, &shape), 16); /* warps */
    shape.threads = 32;
    assert_int_equal(att_cuda_blocks_per_sm(&h200, &code, &shape), 32); /* blocks */
    shape.shared = 230000;
    assert_int_equal(att_cuda_blocks_per_sm(&h200, &code, &shape), 1);
}

static gpu_plan plan_of(const char *id, const att_problem *p) {
    gpu_plan plan;
    assert_ok(gpu_plan_cut(&plan, 0, gpu_row_named(id), p));
    return plan;
}

static void test_tiling__decode__splits_fill_the_gpu_once(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 1, 32, 8, 1, 8192, 128, 128, ATT_BF16);
    const gpu_plan plan = plan_of("decode_sm80_bf16_d128_n16s3w4", &p);
    const att_cuda_tiling t = plan.tiling;
    assert_true(t.params.splits > 1);
    assert_int_equal(t.shape.grid[0], 8);
    assert_int_equal(t.shape.grid[1], t.params.splits);
    assert_non_null(t.combine);
    assert_true(t.shape.overlap && t.combine_shape.overlap);
    assert_true(plan.workspace >= (size_t)t.params.splits * 32 * 130 * sizeof(float));
}

/* Tops and sums come in pairs, at multiples of their size whatever the number of floats of O. */
static void test_tiling__parts_of_odd_rows__pairs_are_aligned(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 1, 3, 3, 1, 9000, 61, 61, ATT_BF16);
    const gpu_plan plan = plan_of("decode_sm80_bf16_d64_n16s3w4", &p);
    for (int splits = plan.tiling.params.splits; splits > 1; splits--) {
        att_fwd_params params = plan.tiling.params;
        params.splits = splits;
        char *memory = aligned_alloc(256, plan.workspace);
        att_cuda_point_parts(&params, memory);
        const char *sums = (const char *)params.partial_sums;
        assert_ptr_equal(params.partial_o, memory);
        assert_int_equal((uintptr_t)sums % (2 * sizeof(float)), 0);
        assert_true(sums - memory >= (ptrdiff_t)sizeof(float) * splits * 3 * 61);
        assert_true(sums - memory + (ptrdiff_t)sizeof(float) * 2 * splits * 3 <=
                    (ptrdiff_t)plan.workspace);
        free(memory);
    }
}

/* The warps of a block share a row of many parts; with many rows, each warp takes several. */
static void test_tiling__rows_to_merge__as_many_blocks_as_fit(void **state) {
    (void)state;
    static const struct {
        int64_t batch, seq_q, seq_k;
        int row_warps, rows_a_block;
    } cases[] = {{1, 1, 65536, 4, 1}, {1, 2, 65536, 4, 1}, {1, 64, 16384, 0, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        att_problem p;
        att_problem_init(&p, cases[i].batch, 32, 8, cases[i].seq_q, cases[i].seq_k, 128, 128,
                         ATT_BF16);
        const gpu_plan plan =
            plan_of(cases[i].seq_q > 16 ? "fwd_sm90_bf16_d128_split_m128n128s2"
                                        : "decode_sm80_bf16_d128_n16s3w4",
                    &p);
        const att_cuda_tiling t = plan.tiling;
        const int64_t rows = cases[i].batch * 32 * cases[i].seq_q;
        assert_true(t.params.splits > 4);
        assert_int_equal(t.params.row_warps, cases[i].row_warps);
        assert_int_equal(t.combine_shape.grid[0],
                         (rows + cases[i].rows_a_block - 1) / cases[i].rows_a_block);
    }
}

static void test_tiling__many_blocks__keys_whole(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 64, 32, 8, 1, 1024, 128, 128, ATT_BF16);
    const gpu_plan plan = plan_of("decode_sm80_bf16_d128_n16s3w4", &p);
    const att_cuda_tiling t = plan.tiling;
    assert_int_equal(t.params.splits, 1);
    assert_null(t.combine);
    assert_int_equal(plan.workspace, 0);
}

static void test_tiling__nothing_to_do__nothing_launched(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 2, 8, 8, 0, 64, 64, 64, ATT_F16);
    const gpu_plan plan = plan_of("fwd_sm80_f16_d64_general_m64n64s2", &p);
    fake_cuda *fake = use_fake_cuda();
    const long before = fake->launches;
    const att_args args = {.size = sizeof args};
    assert_ok(gpu_plan_run(&plan, &args, NULL, NULL));
    assert_int_equal(fake->launches, before);
}

static void test_tiling__too_many_blocks__refused(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 60000, 60000, 1, 128, 8, 64, 64, ATT_F16);
    const att_kernel_row *row = gpu_row_named("fwd_sm80_f16_d64_general_m64n64s2");
    gpu_plan plan;
    assert_fails(gpu_plan_cut(&plan, 0, row, &p), ATT_E_UNSUPPORTED, "batch", "blocks");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divisor__every_kind_of_number__exact),
        cmocka_unit_test(test_params__masks__in_the_kernels_terms),
        cmocka_unit_test(test_occupancy__each_limit__binds),
        cmocka_unit_test(test_tiling__decode__splits_fill_the_gpu_once),
        cmocka_unit_test(test_tiling__parts_of_odd_rows__pairs_are_aligned),
        cmocka_unit_test(test_tiling__rows_to_merge__as_many_blocks_as_fit),
        cmocka_unit_test(test_tiling__many_blocks__keys_whole),
        cmocka_unit_test(test_tiling__nothing_to_do__nothing_launched),
        cmocka_unit_test(test_tiling__too_many_blocks__refused),
    };
    return cmocka_run_group_tests(tests, use_fake_gpu, NULL);
}
