/* test_memory.c: the Nth allocation fails, and a run allocates nothing.
 *
 * Linked with --wrap for every call that allocates memory, so that those made by the library
 * during a run can be counted. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/fixture.h"
#include "tests/support/mixture.h"
#include "tests/support/problems.h"

static atomic_long reservations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void *__real_memalign(size_t align, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_memalign(size_t align, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);

void *__wrap_malloc(size_t bytes) {
    atomic_fetch_add(&reservations, 1);
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes) {
    atomic_fetch_add(&reservations, 1);
    return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
    atomic_fetch_add(&reservations, 1);
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes) {
    atomic_fetch_add(&reservations, 1);
    return __real_aligned_alloc(align, bytes);
}

void *__wrap_memalign(size_t align, size_t bytes) {
    atomic_fetch_add(&reservations, 1);
    return __real_memalign(align, bytes);
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes) {
    atomic_fetch_add(&reservations, 1);
    return __real_posix_memalign(out, align, bytes);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    atomic_fetch_add(&reservations, 1);
    return __real_mmap(at, bytes, protection, flags, file, offset);
}

static void test_count__library_allocation__is_seen(void **state) {
    (void)state;
    const long before = atomic_load(&reservations);
    att_free(att_alloc(100));
    assert_int_equal(atomic_load(&reservations), before + 1);
}

static void run_counted(att_context *ctx, const att_problem *problem) {
    fixture f;
    att_plan *plan;
    fixture_open(&f, problem, 3);
    assert_ok(att_plan_create(&plan, ctx, problem));
    const size_t bytes = att_plan_workspace(plan);
    assert_int_equal(bytes % ATT_WORKSPACE_ALIGN, 0); /* accepted by aligned_alloc() */
    f.workspace = guard_open(bytes, ATT_WORKSPACE_ALIGN);
    for (int repeat = 0; repeat < 3; repeat++) {
        const long before = atomic_load(&reservations);
        const att_status status =
            att_plan_run(plan, &f.args, bytes ? f.workspace.data : NULL, NULL);
        const long after = atomic_load(&reservations);
        assert_int_equal(status, ATT_OK);
        assert_int_equal(after - before, 0);
    }
    att_plan_destroy(plan);
    fixture_close(&f);
}

static void test_run__any_engine_dtype_and_shape__reserves_nothing(void **state) {
    (void)state;
    static const att_dtype dtypes[] = {ATT_F32, ATT_F16, ATT_BF16};
    static const int64_t shapes[][2] = {{1, 60000}, {3, 70}, {300, 300},
                                        {130, 5},   {0, 4},  {4, 0}};
    engines e;
    engines_open(&e, 3);
    for (int i = 0; i < e.count; i++)
        for (size_t t = 0; t < 3; t++)
            for (size_t s = 0; s < 6; s++) {
                const att_problem p = problem_single(shapes[s][0], shapes[s][1], 40, dtypes[t]);
                run_counted(e.ctx[i], &p);
            }
    const att_problem busy = problem_with(ATT_FEATURES_ALL & ~(uint32_t)ATT_LENS_K, ATT_BF16);
    run_counted(e.ctx[e.count - 1], &busy);
    engines_close(&e);
}

/* A refused run must not allocate either. */
static void test_run__mixture_of_experts__reserves_nothing(void **state) {
    (void)state;
    static const att_dtype dtypes[] = {ATT_F32, ATT_F16, ATT_BF16};
    engines e;
    engines_open(&e, 3);
    for (int i = 0; i < e.count; i++)
        for (int t = 0; t < 3; t++) {
            att_moe_problem p;
            mixture m;
            att_plan *plan;
            att_moe_problem_init(&p, 90, 64, 48, 4, 2, dtypes[t]);
            mixture_open(&m, &p, 1);
            assert_ok(att_moe_plan_create(&plan, e.ctx[i], &p));
            guarded workspace = guard_open(att_plan_workspace(plan), ATT_WORKSPACE_ALIGN);
            const long before = atomic_load(&reservations);
            const att_status status = att_moe_run(plan, &m.args, workspace.data, NULL);
            const long after = atomic_load(&reservations);
            assert_ok(status);
            assert_int_equal(after, before);
            guard_close(&workspace);
            att_plan_destroy(plan);
            mixture_close(&m);
        }
    engines_close(&e);
}

static void test_run__refused__reserves_nothing(void **state) {
    (void)state;
    const att_problem p = problem_with(0, ATT_F32);
    att_context *ctx = context_open(ATT_ISA_AUTO, 1);
    att_plan *plan;
    assert_ok(att_plan_create(&plan, ctx, &p));
    const att_args args = {.size = sizeof args};
    const long before = atomic_load(&reservations);
    assert_int_equal(att_plan_run(plan, &args, NULL, NULL), ATT_E_ARG);
    assert_int_equal(atomic_load(&reservations), before);
    att_plan_destroy(plan);
    att_context_destroy(ctx);
}

/* Everything from opening a context to the answer and back. */
static att_status whole_life(const att_problem *problem, fixture *f) {
    const att_context_options options = {
        .size = sizeof options, .device = ATT_DEVICE_CPU, .threads = 3};
    att_context *ctx;
    att_plan *plan;
    att_status status = att_context_create(&ctx, &options);
    if (status != ATT_OK) {
        assert_null(ctx);
        return status;
    }
    status = att_plan_create(&plan, ctx, problem);
    if (status == ATT_OK) {
        att_plan_destroy(plan);
        status = fixture_run(f, ctx);
    } else {
        assert_null(plan);
    }
    att_context_destroy(ctx);
    return status;
}

static void test_create__nth_allocation_fails__memory_error_no_leak_then_works(void **state) {
    (void)state;
    static const uint32_t features[] = {0, ATT_LSE | ATT_BIAS | ATT_PAGED};
    for (size_t set = 0; set < 2; set++) {
        const att_problem problem = problem_with(features[set], ATT_BF16);
        fixture f;
        fixture_open(&f, &problem, 5);
        const long live = att_alloc_live();
        long n = 0;
        for (;; n++) {
            att_alloc_fail_after(n);
            const att_status status = whole_life(&problem, &f);
            att_alloc_fail_after(-1);
            assert_int_equal(att_alloc_live(), live);
            if (status == ATT_OK)
                break;
            assert_int_equal(status, ATT_E_MEMORY);
            assert_int_equal(att_last_error()->status, ATT_E_MEMORY);
            assert_true(att_last_error()->text[0] != '\0');
            assert_true(fixture_poisoned(&f));
            assert_ok(whole_life(&problem, &f));
            fixture_poison(&f);
            assert_true(n < 1000);
        }
        assert_true(n >= 2); /* a context and a plan at the least */
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count__library_allocation__is_seen),
        cmocka_unit_test(test_run__any_engine_dtype_and_shape__reserves_nothing),
        cmocka_unit_test(test_run__mixture_of_experts__reserves_nothing),
        cmocka_unit_test(test_run__refused__reserves_nothing),
        cmocka_unit_test(test_create__nth_allocation_fails__memory_error_no_leak_then_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
