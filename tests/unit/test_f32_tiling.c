/* test_f32_tiling.c: how fwd_sm80_f32 divides the work: the size of tiles, and the parts of the
 * keys. */
#include <string.h>

#include "attention/cuda/f32_tiling.h"
#include "core/select.h"
#include "tests/support/check.h"

enum { SMS = 132 };

static const att_kernel_row *row_of(att_cuda_role role, int d) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        const att_cuda_kernel *k = row->cuda;
        if (k && k->role == role && k->dtype == ATT_F32 && k->d_qk == d &&
            strcmp(k->source, "fwd_sm80_f32") == 0)
            return row;
    }
    fail_msg("there is no such row");
    return NULL;
}

static att_problem square(int64_t batch, int64_t seq, int64_t d) {
    att_problem p;
    att_problem_init(&p, batch, 8, 8, seq, seq, d, d, ATT_F32);
    return p;
}

static bool small_first(int64_t batch, int64_t seq, int64_t d) {
    const att_cuda_limits gpu = {.cc = 90, .sms = SMS, .shared_per_block = 227 << 10};
    const att_limits limits = {.device = ATT_DEVICE_CUDA, .gpu = &gpu};
    const att_problem p = square(batch, seq, d);
    return att_cuda_f32_estimate(row_of(ATT_ROLE_SMALL, (int)d), &limits, &p) <
           att_cuda_f32_estimate(row_of(ATT_ROLE_PLAIN, (int)d), &limits, &p);
}

static void test_estimate__few_blocks__small_tiles(void **state) {
    (void)state;
    assert_true(small_first(1, 512, 64));
    assert_true(small_first(1, 2048, 64)); /* 128 blocks, where 264 fit at once */
    assert_false(small_first(4, 1024, 64));
    assert_true(small_first(1, 1024, 128));
    assert_false(small_first(1, 2048, 128)); /* an SM holds one */
}

static int splits_of(int64_t batch, int64_t seq, int64_t rows, int resident) {
    const att_problem p = square(batch, seq, 64);
    const int64_t blocks = batch * 8 * ((rows + 63) / 64);
    return att_cuda_f32_splits(row_of(ATT_ROLE_SMALL, 64)->cuda, &p, blocks, SMS, resident);
}

/* As measured with forced splits on an H200. */
static void test_splits__as_measured(void **state) {
    (void)state;
    assert_int_equal(splits_of(1, 128, 128, 2), 1);
    assert_int_equal(splits_of(2, 256, 256, 2), 1);
    assert_int_equal(splits_of(1, 512, 512, 2), 4);
    assert_int_equal(splits_of(2, 512, 512, 2), 1);
    assert_int_equal(splits_of(1, 1024, 1024, 2), 2);
    assert_int_equal(splits_of(1, 2048, 2048, 2), 1);
}

static void test_splits__one_row_and_many_keys__fill_the_gpu(void **state) {
    (void)state;
    for (int resident = 1; resident <= 2; resident++) {
        const int splits = splits_of(1, 65536, 1, resident);
        assert_true(splits * 8 > SMS / 2 && splits * 8 <= 2 * SMS);
        assert_int_equal(splits_of(1, 0, 1, resident), 1);
        assert_int_equal(splits_of(64, 65536, 64, resident), 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimate__few_blocks__small_tiles),
        cmocka_unit_test(test_splits__as_measured),
        cmocka_unit_test(test_splits__one_row_and_many_keys__fill_the_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
