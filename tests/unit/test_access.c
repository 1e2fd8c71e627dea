/* test_access.c: the targets of loads and stores in a kernel's C code. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/support/small_launch.h"
#include "tests/virtual_gpu/global_memory.h"
#include "tests/virtual_gpu/shared_memory.h"
#include "tests/virtual_gpu/virtual_gpu.h"

void __tsan_read1(void *memory);
void __tsan_read4(void *memory);
void __tsan_read16(void *memory);
void __tsan_write2(void *memory);
void __tsan_write8(void *memory);
void __tsan_unaligned_write4(void *memory);
void __tsan_volatile_read4(void *memory);
void __tsan_read_range(void *memory, unsigned long bytes);
void __tsan_write_range(void *memory, unsigned long bytes);

vgpu_thread *vgpu_self;
vgpu_dim3 vgpu_grid_size, vgpu_block_size;

/* The last access to shared memory. */
static struct {
    const void *memory;
    unsigned bytes;
    shared_access access;
} shared;

void shared_touch_memory(vgpu_lane *lane, const void *memory, unsigned bytes,
                         shared_access access) {
    assert_ptr_equal(lane, vgpu_self);
    shared.memory = memory;
    shared.bytes = bytes;
    shared.access = access;
}

static void run(const void *params) {
    (void)params;
}

static small_launch *now;
static vgpu_entry_point entry;
static char device[64], *static_shared, *stack;
static int params[4];
static int own_data; /* of the object that run() is in */

static int begin(void **state) {
    (void)state;
    now = small_launch_begin();
    vgpu_memory_add(device, sizeof device);
    static_shared = malloc(32);
    stack = malloc(64);
    assert_true(static_shared && stack);
    entry = (vgpu_entry_point){.run = run,
                               .params_bytes = sizeof params,
                               .is_watched = 1,
                               .static_begin = static_shared,
                               .static_end = static_shared + 32};
    now->grid.entry = &entry;
    now->grid.params = params;
    now->grid.params_bytes = sizeof params;
    now->lanes[0][1].fiber = (vgpu_fiber){.stack = stack, .stack_bytes = 64};
    vgpu_self = &now->lanes[0][1].is;
    memset(&shared, 0, sizeof shared);
    return 0;
}

static int end(void **state) {
    (void)state;
    vgpu_self = NULL;
    small_launch_end(now);
    vgpu_memory_remove(device);
    free(static_shared);
    free(stack);
    return 0;
}

static void test_access__no_lane_runs__nothing(void **state) {
    (void)state;
    vgpu_self = NULL;
    assert_check_passes(__tsan_read4(NULL));
}

static void test_access__own_stack__nothing(void **state) {
    (void)state;
    assert_check_passes(__tsan_write8(stack));
    assert_check_passes(__tsan_read1(stack + 63));
    assert_null(shared.memory);
}

static void check_shared(const void *memory, unsigned bytes, shared_access access) {
    assert_ptr_equal(shared.memory, memory);
    assert_int_equal(shared.bytes, bytes);
    assert_int_equal(shared.access, access);
}

static void test_access__shared_memory__of_the_cluster(void **state) {
    (void)state;
    __tsan_read16(now->shared[0]);
    check_shared(now->shared[0], 16, SHARED_READ);
    __tsan_unaligned_write4(now->shared[0] + SMALL_SHARED - 4);
    check_shared(now->shared[0] + SMALL_SHARED - 4, 4, SHARED_WRITE);
    __tsan_volatile_read4(now->shared[1]);
    check_shared(now->shared[1], 4, SHARED_READ);
    __tsan_write_range(static_shared, 32);
    check_shared(static_shared, 32, SHARED_WRITE);
}

static void test_access__global_memory__checked(void **state) {
    (void)state;
    assert_check_fails(__tsan_read4(device), CHECK_UNINITIALISED, "C code: reads byte 0 ");
    assert_check_passes(__tsan_write2(device));
    assert_check_passes(__tsan_write_range(device + 2, 62));
    assert_check_passes(__tsan_read_range(device, 64));
    vgpu_self = &now->lanes[0][2].is;
    assert_check_fails(__tsan_read4(device), CHECK_RACE, "C code: thread 2 ");
    assert_check_fails(__tsan_write8(device + 57), CHECK_BOUNDS, "8 bytes at byte 57 ");
}

static void test_access__constants__read_only(void **state) {
    (void)state;
    assert_check_passes(__tsan_read4(&params[3]));
    assert_check_fails(__tsan_write2(params), CHECK_BOUNDS, "a parameter");
    assert_check_passes(__tsan_read4(vgpu_self));
    assert_check_passes(__tsan_read4(&vgpu_grid_size.z));
    assert_check_fails(__tsan_write2(&vgpu_block_size), CHECK_BOUNDS, "a built-in variable");
    assert_check_passes(__tsan_read4(&own_data));
    assert_check_fails(__tsan_write2(&own_data), CHECK_BOUNDS, "the kernel's own object");
}

static void test_access__data_of_another_object__out_of_bounds(void **state) {
    (void)state;
    entry.run = (void (*)(const void *))free; /* the next launch's kernel is in another
                                               * object */
    assert_check_fails(__tsan_read4(&own_data), CHECK_BOUNDS, "nearest");
}

static void test_access__anything_else__out_of_bounds(void **state) {
    (void)state;
    assert_check_fails(__tsan_read4(now->lanes[0][2].warp), CHECK_BOUNDS, "nearest");
    assert_check_fails(__tsan_read1(NULL), CHECK_BOUNDS, "nearest");
    assert_check_fails(__tsan_write2(stack + 64), CHECK_BOUNDS, "nearest");
}

#define access_test(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    unsetenv("ATTEST_VIRTUAL_RACES");
    const struct CMUnitTest tests[] = {
        access_test(test_access__no_lane_runs__nothing),
        access_test(test_access__own_stack__nothing),
        access_test(test_access__shared_memory__of_the_cluster),
        access_test(test_access__global_memory__checked),
        access_test(test_access__constants__read_only),
        access_test(test_access__data_of_another_object__out_of_bounds),
        access_test(test_access__anything_else__out_of_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
