/* test_alloc.c: aligned, zeroed, counted memory and the injected failure. */
#include <string.h>

#include "base/alloc.h"
#include "tests/support/check.h"

static void test_alloc__any_size__aligned_and_zeroed(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 100001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *memory = att_alloc(sizes[i]);
        assert_non_null(memory);
        assert_true((uintptr_t)memory % 64 == 0);
        for (size_t b = 0; b < sizes[i]; b++)
            assert_int_equal(memory[b], 0);
        if (sizes[i])
            memset(memory, 0xff, sizes[i]);
        att_free(memory);
    }
}

static void test_alloc__absurd_size__null(void **state) {
    (void)state;
    const long live = att_alloc_live();
    assert_null(att_alloc(SIZE_MAX));
    assert_null(att_alloc(SIZE_MAX - 63));
    assert_null(att_alloc(SIZE_MAX / 2));
    assert_int_equal(att_alloc_live(), live);
}

static void test_alloc_live__alloc_and_free__counted(void **state) {
    (void)state;
    const long live = att_alloc_live();
    void *a = att_alloc(1);
    void *b = att_alloc(1);
    assert_int_equal(att_alloc_live(), live + 2);
    att_free(a);
    assert_int_equal(att_alloc_live(), live + 1);
    att_free(NULL);
    assert_int_equal(att_alloc_live(), live + 1);
    att_free(b);
    assert_int_equal(att_alloc_live(), live);
}

static void test_alloc_fail_after__n__fails_once_then_recovers(void **state) {
    (void)state;
    for (long n = 0; n < 3; n++) {
        void *kept[3] = {0};
        att_alloc_fail_after(n);
        for (long i = 0; i < n; i++) {
            kept[i] = att_alloc(8);
            assert_non_null(kept[i]);
        }
        assert_null(att_alloc(8));
        void *after = att_alloc(8);
        assert_non_null(after);
        att_free(after);
        for (long i = 0; i < n; i++)
            att_free(kept[i]);
    }
    att_alloc_fail_after(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc__any_size__aligned_and_zeroed),
        cmocka_unit_test(test_alloc__absurd_size__null),
        cmocka_unit_test(test_alloc_live__alloc_and_free__counted),
        cmocka_unit_test(test_alloc_fail_after__n__fails_once_then_recovers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
