/* test_problem.c: the output of the helpers that fill att_problem. */
#include <math.h>
#include <string.h>

#include "tests/support/check.h"

static void assert_strides(const att_strides *s, int64_t batch, int64_t head, int64_t row) {
    assert_int_equal(s->batch, batch);
    assert_int_equal(s->head, head);
    assert_int_equal(s->row, row);
    assert_int_equal(s->col, 1);
}

static void test_problem_init__any_memory__every_field_set(void **state) {
    (void)state;
    att_problem p, q;
    memset(&p, 0x55, sizeof p);
    memset(&q, 0xaa, sizeof q);
    att_problem_init(&p, 2, 6, 3, 5, 7, 16, 8, ATT_BF16);
    att_problem_init(&q, 2, 6, 3, 5, 7, 16, 8, ATT_BF16);
    assert_memory_equal(&p, &q, sizeof p);
    assert_int_equal(p.size, sizeof p);
    assert_int_equal(p.features, 0);
    assert_int_equal(p.dtype, ATT_BF16);
    assert_int_equal(p.dtype_o, ATT_BF16);
    assert_int_equal(p.batch, 2);
    assert_int_equal(p.heads_q, 6);
    assert_int_equal(p.heads_kv, 3);
    assert_int_equal(p.seq_q, 5);
    assert_int_equal(p.seq_k, 7);
    assert_int_equal(p.d_qk, 16);
    assert_int_equal(p.d_v, 8);
    assert_true(p.scale == 0.25f);
    assert_int_equal(p.causal, ATT_CAUSAL_NONE);
    assert_int_equal(p.align, ATT_ALIGN_UNSET);
    assert_int_equal(p.window_left, -1);
    assert_int_equal(p.window_right, -1);
    assert_true(p.softcap == 0.0f);
}

static void test_problem_init__strides__contiguous_bshd(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 2, 6, 3, 5, 7, 16, 8, ATT_F32);
    assert_strides(&p.q, 5 * 6 * 16, 16, 6 * 16);
    assert_strides(&p.k, 7 * 3 * 16, 16, 3 * 16);
    assert_strides(&p.v, 7 * 3 * 8, 8, 3 * 8);
    assert_strides(&p.o, 5 * 6 * 8, 8, 6 * 8);
    assert_int_equal(p.lse.batch, 6 * 5);
    assert_int_equal(p.lse.head, 5);
    assert_int_equal(p.lse.row, 1);
}

/* The struct of 0.1 ended where `alignment` is now. */
enum { OLDER = offsetof(att_problem, alignment) };

static void assert_untouched(const void *bytes, size_t first, size_t end) {
    for (size_t i = first; i < end; i++)
        assert_int_equal(((const unsigned char *)bytes)[i], 0x55);
}

static void test_problem_init__older_caller__nothing_past_its_struct_written(void **state) {
    (void)state;
    att_problem p;
    memset(&p, 0x55, sizeof p);
    att_problem_init_sized(&p, OLDER, 2, 6, 3, 5, 7, 16, 8, ATT_BF16);
    assert_int_equal(p.size, OLDER);
    assert_int_equal(p.d_v, 8);
    assert_untouched(&p, OLDER, sizeof p);
}

static void test_problem_init__newer_caller__fields_unknown_here_are_zero(void **state) {
    (void)state;
    struct {
        att_problem known;
        unsigned char added[16], beyond[8];
    } newer;
    static const unsigned char zeros[16];
    memset(&newer, 0x55, sizeof newer);
    att_problem_init_sized(&newer.known, sizeof newer.known + sizeof newer.added, 2, 6, 3, 5, 7,
                           16, 8, ATT_BF16);
    assert_int_equal(newer.known.size, sizeof newer.known + sizeof newer.added);
    assert_int_equal(newer.known.alignment, 0);
    assert_memory_equal(newer.added, zeros, sizeof zeros);
    assert_untouched(newer.beyond, 0, sizeof newer.beyond);
}

/* Programs built with 0.1 call the function, which had no size argument. */
static void test_problem_init__by_its_symbol__the_struct_of_0_1(void **state) {
    (void)state;
    att_problem p;
    memset(&p, 0x55, sizeof p);
    (att_problem_init)(&p, 2, 6, 3, 5, 7, 16, 8, ATT_BF16);
    assert_int_equal(p.size, OLDER);
    assert_true(p.scale == 0.25f);
    assert_untouched(&p, OLDER, sizeof p);
}

static void test_problem_init__zero_head_dimension__does_not_trap(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 1, 1, 1, 1, 1, 0, 0, ATT_F32);
    assert_int_equal(p.d_qk, 0);
}

/* Products that wrap must not be undefined behaviour; att_plan_create() refuses them. */
static void test_problem_init__overflowing_sizes__does_not_trap(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX,
                     INT64_MAX, ATT_F32);
    att_problem_layout_bhsd(&p);
    int64_t k_offset, v_offset;
    att_problem_layout_packed(&p, &k_offset, &v_offset);
    assert_int_equal(p.batch, INT64_MAX);
}

static void test_layout_bhsd__strides__heads_outside_rows(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 2, 6, 3, 5, 7, 16, 8, ATT_F32);
    att_problem_layout_bhsd(&p);
    assert_strides(&p.q, 6 * 5 * 16, 5 * 16, 16);
    assert_strides(&p.k, 3 * 7 * 16, 7 * 16, 16);
    assert_strides(&p.v, 3 * 7 * 8, 7 * 8, 8);
    assert_strides(&p.o, 6 * 5 * 8, 5 * 8, 8);
    assert_int_equal(p.lse.head, 5);
}

static void test_layout_bshd__after_bhsd__restored(void **state) {
    (void)state;
    att_problem p, fresh;
    att_problem_init(&p, 2, 6, 3, 5, 7, 16, 8, ATT_F32);
    fresh = p;
    att_problem_layout_bhsd(&p);
    att_problem_layout_bshd(&p);
    assert_memory_equal(&p, &fresh, sizeof p);
}

static void test_layout_packed__strides_and_offsets__one_buffer(void **state) {
    (void)state;
    att_problem p;
    int64_t k_offset = -1, v_offset = -1;
    att_problem_init(&p, 2, 4, 2, 5, 5, 16, 8, ATT_F32);
    att_problem_layout_packed(&p, &k_offset, &v_offset);
    const int64_t row = 4 * 16 + 2 * 16 + 2 * 8;
    assert_int_equal(k_offset, 4 * 16);
    assert_int_equal(v_offset, 4 * 16 + 2 * 16);
    assert_strides(&p.q, 5 * row, 16, row);
    assert_strides(&p.k, 5 * row, 16, row);
    assert_strides(&p.v, 5 * row, 8, row);
    assert_strides(&p.o, 5 * 4 * 8, 8, 4 * 8);
}

static void test_layout__packed_queries__lse_is_heads_by_total(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 3, 4, 4, 5, 5, 16, 16, ATT_F32);
    p.features = ATT_LSE | ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K;
    p.total_q = p.total_k = 11;
    att_problem_layout_bshd(&p);
    assert_int_equal(p.lse.head, 11);
    assert_int_equal(p.lse.row, 1);
}

/* K and V by page: after a page comes another page, not the next seq_k rows. */
static void test_layout__paged__strides_of_pages_and_their_table(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 3, 4, 2, 1, 33, 16, 8, ATT_F32);
    p.features = ATT_LENS_K | ATT_PAGED;
    p.page_size = 16;
    p.num_pages = 9;
    att_problem_layout_bshd(&p);
    assert_strides(&p.q, 4 * 16, 16, 4 * 16);
    assert_strides(&p.k, 16 * 2 * 16, 16, 2 * 16);
    assert_strides(&p.v, 16 * 2 * 8, 8, 2 * 8);
    assert_int_equal(p.page_table_stride, 3);
    p.seq_k = 32;
    att_problem_layout_bhsd(&p);
    assert_strides(&p.k, 2 * 16 * 16, 16 * 16, 16);
    assert_strides(&p.v, 2 * 16 * 8, 16 * 8, 8);
    assert_int_equal(p.page_table_stride, 2);
}

static void test_layout__page_size_not_set_yet__does_not_trap(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 3, 4, 2, 1, 33, 16, 8, ATT_F32);
    p.features = ATT_PAGED;
    att_problem_layout_bshd(&p);
    assert_int_equal(p.page_table_stride, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_problem_init__any_memory__every_field_set),
        cmocka_unit_test(test_problem_init__strides__contiguous_bshd),
        cmocka_unit_test(test_problem_init__older_caller__nothing_past_its_struct_written),
        cmocka_unit_test(test_problem_init__newer_caller__fields_unknown_here_are_zero),
        cmocka_unit_test(test_problem_init__by_its_symbol__the_struct_of_0_1),
        cmocka_unit_test(test_problem_init__zero_head_dimension__does_not_trap),
        cmocka_unit_test(test_problem_init__overflowing_sizes__does_not_trap),
        cmocka_unit_test(test_layout_bhsd__strides__heads_outside_rows),
        cmocka_unit_test(test_layout_bshd__after_bhsd__restored),
        cmocka_unit_test(test_layout_packed__strides_and_offsets__one_buffer),
        cmocka_unit_test(test_layout__packed_queries__lse_is_heads_by_total),
        cmocka_unit_test(test_layout__paged__strides_of_pages_and_their_table),
        cmocka_unit_test(test_layout__page_size_not_set_yet__does_not_trap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
