/* test_global_memory.c: the virtual GPU's device memory: its bounds, and which bytes were
 * written. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/support/small_launch.h"
#include "tests/virtual_gpu/global_memory.h"
#include "tests/virtual_gpu/virtual_gpu.h"

enum { BYTES = 200, GAP = 64, EACH = BYTES + GAP, COUNT = 40 };
static char memory[COUNT * EACH];
static small_launch *now;

static int begin(void **state) {
    (void)state;
    now = small_launch_begin();
    return 0;
}

static int end(void **state) {
    (void)state;
    small_launch_end(now);
    for (int i = 0; i < COUNT; i++)
        vgpu_memory_remove(memory + i * EACH);
    return 0;
}

static void touch(const char *at, size_t bytes, global_access access) {
    global_touch(&now->lanes[0][0], at, bytes, access, "test");
}

static void test_global_touch__no_memory__out_of_bounds(void **state) {
    (void)state;
    assert_check_fails(touch(memory, 1, GLOBAL_WRITE), CHECK_BOUNDS, "no memory is allocated");
    assert_check_fails(touch(NULL, 4, GLOBAL_READ), CHECK_BOUNDS, "test: reads 4 bytes");
}

static void test_global_touch__a_byte_beside__out_of_bounds(void **state) {
    (void)state;
    vgpu_memory_add(memory + EACH, BYTES);
    const char *first = memory + EACH;
    assert_check_passes(touch(first, BYTES, GLOBAL_WRITE));
    assert_check_passes(touch(first + BYTES - 1, 1, GLOBAL_READ));
    assert_check_fails(touch(first - 1, 1, GLOBAL_READ), CHECK_BOUNDS,
                       "1 bytes at byte -1 of an allocation of 200 bytes");
    assert_check_fails(touch(first - 1, 4, GLOBAL_WRITE), CHECK_BOUNDS, "at byte -1 ");
    assert_check_fails(touch(first + BYTES, 1, GLOBAL_ATOMIC), CHECK_BOUNDS,
                       "changes atomically 1 bytes at byte 200 of an allocation of 200 bytes");
    assert_check_fails(touch(first + BYTES - 3, 4, GLOBAL_READ), CHECK_BOUNDS,
                       "4 bytes at byte 197 ");
    assert_check_fails(touch(first, BYTES + 1, GLOBAL_WRITE), CHECK_BOUNDS,
                       "201 bytes at byte 0 ");
    assert_check_fails(
        global_touch_async(&now->lanes[0][0], first, BYTES + 1, GLOBAL_WRITE, "test"),
        CHECK_BOUNDS, "201 bytes");
    assert_check_passes(touch(first + BYTES, 0, GLOBAL_READ));
    assert_true(global_contains(first + BYTES - 1));
    assert_false(global_contains(first + BYTES));
}

static void test_global_touch__between_allocations__names_the_nearest(void **state) {
    (void)state;
    vgpu_memory_add(memory, BYTES);
    vgpu_memory_add(memory + EACH, BYTES - 1);
    assert_check_fails(touch(memory + BYTES + 4, 4, GLOBAL_READ), CHECK_BOUNDS,
                       "of an allocation of 200 bytes");
    assert_check_fails(touch(memory + EACH - 8, 4, GLOBAL_READ), CHECK_BOUNDS,
                       "byte -8 of an allocation of 199 bytes");
}

static void check_found(const char *at, bool is_there) {
    assert_int_equal(global_contains(at), is_there);
    if (is_there)
        assert_check_passes(touch(at, BYTES, GLOBAL_READ));
    else
        assert_check_fails(touch(at, 1, GLOBAL_READ), CHECK_BOUNDS, "nearest");
}

static void test_global_touch__many_allocations__each_found(void **state) {
    (void)state;
    for (int i = 0; i < COUNT; i++) { /* in no order */
        vgpu_memory_add(memory + i * 7 % COUNT * EACH, BYTES);
        vgpu_memory_written(memory + i * 7 % COUNT * EACH, BYTES);
    }
    for (int i = 0; i < COUNT; i++)
        check_found(memory + i * 11 % COUNT * EACH, true);
    for (int i = 0; i < COUNT; i += 2)
        vgpu_memory_remove(memory + i * EACH);
    for (int i = 0; i < COUNT; i++)
        check_found(memory + i * EACH, i % 2 == 1);
}

static void test_global_touch__unwritten__uninitialised(void **state) {
    (void)state;
    vgpu_memory_add(memory, BYTES);
    assert_check_fails(touch(memory, 1, GLOBAL_READ), CHECK_UNINITIALISED, "reads byte 0 ");
    assert_check_fails(touch(memory, 4, GLOBAL_ATOMIC), CHECK_UNINITIALISED, "byte 0 ");
    vgpu_memory_written(memory, 70);
    assert_check_passes(touch(memory, 70, GLOBAL_READ));
    assert_check_fails(touch(memory + 60, 16, GLOBAL_READ), CHECK_UNINITIALISED,
                       "byte 70 of an allocation of 200 bytes");
    assert_check_fails(touch(memory + 66, 8, GLOBAL_READ), CHECK_UNINITIALISED, "byte 70 ");
    assert_check_passes(touch(memory + 72, 128, GLOBAL_WRITE));
    assert_check_fails(touch(memory, BYTES, GLOBAL_READ), CHECK_UNINITIALISED, "byte 70 ");
    assert_check_passes(touch(memory + 70, 1, GLOBAL_WRITE));
    assert_check_fails(touch(memory + 64, 64, GLOBAL_READ), CHECK_UNINITIALISED, "byte 71 ");
    assert_check_passes(
        global_touch_async(&now->lanes[0][0], memory + 71, 1, GLOBAL_WRITE, "test"));
    global_landed(&now->lanes[0][0], memory + 71, 1);
    assert_check_passes(touch(memory, BYTES, GLOBAL_READ));
}

static void test_global_touch__allocated_again__uninitialised(void **state) {
    (void)state;
    vgpu_memory_add(memory, BYTES);
    vgpu_memory_written(memory, BYTES);
    vgpu_memory_remove(memory);
    vgpu_memory_add(memory, BYTES);
    assert_check_fails(touch(memory, 4, GLOBAL_READ), CHECK_UNINITIALISED, "byte 0 ");
}

#define memory_test(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    unsetenv("ATTEST_VIRTUAL_RACES");
    const struct CMUnitTest tests[] = {
        memory_test(test_global_touch__no_memory__out_of_bounds),
        memory_test(test_global_touch__a_byte_beside__out_of_bounds),
        memory_test(test_global_touch__between_allocations__names_the_nearest),
        memory_test(test_global_touch__many_allocations__each_found),
        memory_test(test_global_touch__unwritten__uninitialised),
        memory_test(test_global_touch__allocated_again__uninitialised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
