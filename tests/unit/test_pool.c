/* test_pool.c: the threads of a context: every task once, and a clear status if one cannot
 * start.
 *
 * Linked with --wrap=pthread_create, so that the Nth thread can be refused. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "cpu/pool.h"
#include "tests/support/check.h"
#include "tests/support/engines.h"

static atomic_int threads_left = -1; /* threads that may still start; -1: any number */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument) {
    if (atomic_load(&threads_left) >= 0 && atomic_fetch_sub(&threads_left, 1) == 0)
        return EAGAIN;
    return __real_pthread_create(thread, attributes, start, argument);
}

enum { TASKS_MAX = 1000 };

typedef struct tally {
    atomic_int done[TASKS_MAX];
    atomic_int worker_least, worker_most;
    int threads;
} tally;

static void mark(void *arg, int64_t i, int worker) {
    tally *t = arg;
    atomic_fetch_add(&t->done[i], 1);
    int least = atomic_load(&t->worker_least);
    while (worker < least && !atomic_compare_exchange_weak(&t->worker_least, &least, worker))
        continue;
    int most = atomic_load(&t->worker_most);
    while (worker > most && !atomic_compare_exchange_weak(&t->worker_most, &most, worker))
        continue;
}

static void run_and_check(att_pool *pool, int threads, int64_t count) {
    static tally t;
    memset(&t, 0, sizeof t);
    att_pool_run(pool, threads, count, mark, &t);
    for (int64_t i = 0; i < TASKS_MAX; i++)
        assert_int_equal(atomic_load(&t.done[i]), i < count);
    assert_true(atomic_load(&t.worker_least) >= 0);
    assert_true(atomic_load(&t.worker_most) < threads);
}

static void test_pool__any_threads_and_tasks__each_task_once(void **state) {
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 3, 7, 8, 9, 100, TASKS_MAX};
    for (int threads = 1; threads <= 8; threads++) {
        att_pool *pool;
        assert_ok(att_pool_create(&pool, threads));
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
            run_and_check(pool, threads, counts[i]);
        att_pool_destroy(pool);
    }
}

/* A run may ask for fewer threads than the pool has; the others do not take part. */
static void test_pool__fewer_threads_asked_for__no_other_takes_part(void **state) {
    (void)state;
    att_pool *pool;
    assert_ok(att_pool_create(&pool, 6));
    for (int round = 0; round < 50; round++)
        for (int threads = 1; threads <= 6; threads++)
            run_and_check(pool, threads, 40);
    att_pool_destroy(pool);
}

/* Short rounds in quick succession, and rounds far enough apart for the workers to fall
 * asleep. */
static void test_pool__many_rounds__none_lost(void **state) {
    (void)state;
    att_pool *pool;
    assert_ok(att_pool_create(&pool, 4));
    for (int round = 0; round < 500; round++) {
        run_and_check(pool, 4, 6);
        if (round % 100 == 0) {
            const struct timespec pause = {.tv_nsec = 5000000};
            nanosleep(&pause, NULL);
        }
    }
    att_pool_destroy(pool);
}

static void test_pool__destroyed_unused__joins(void **state) {
    (void)state;
    const long live = att_alloc_live();
    for (int i = 0; i < 50; i++) {
        att_pool *pool;
        assert_ok(att_pool_create(&pool, 1 + i % 5));
        att_pool_destroy(pool);
    }
    att_pool_destroy(NULL);
    assert_int_equal(att_alloc_live(), live);
}

typedef struct caller {
    att_pool *pool;
    atomic_int sum;
} caller;

static void add(void *arg, int64_t i, int worker) {
    (void)worker;
    atomic_fetch_add((atomic_int *)arg, (int)i);
}

static void *call_often(void *arg) {
    caller *c = arg;
    for (int round = 0; round < 200; round++)
        att_pool_run(c->pool, 3, 10, add, &c->sum);
    return NULL;
}

static void test_pool__several_callers__each_gets_its_own_work_done(void **state) {
    (void)state;
    enum { CALLERS = 6 };
    att_pool *pool;
    assert_ok(att_pool_create(&pool, 3));
    static caller callers[CALLERS];
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i].pool = pool;
        atomic_store(&callers[i].sum, 0);
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(atomic_load(&callers[i].sum), 200 * 45);
    }
    att_pool_destroy(pool);
}

static void run_inner(void *arg, int64_t i, int worker) {
    (void)i;
    (void)worker;
    caller *c = arg;
    att_pool_run(c->pool, 3, 10, add, &c->sum);
}

static void test_pool__run_from_within_a_task__does_not_deadlock(void **state) {
    (void)state;
    caller c = {.sum = 0};
    assert_ok(att_pool_create(&c.pool, 4));
    att_pool_run(c.pool, 4, 8, run_inner, &c);
    assert_int_equal(atomic_load(&c.sum), 8 * 45);
    att_pool_destroy(c.pool);
}

static void test_context__nth_thread_refused__system_error_then_works(void **state) {
    (void)state;
    const att_context_options options = {
        .size = sizeof options, .device = ATT_DEVICE_CPU, .threads = 4};
    const long live = att_alloc_live();
    for (int n = 0; n < 3; n++) {
        att_context *ctx;
        atomic_store(&threads_left, n);
        assert_fails(att_context_create(&ctx, &options), ATT_E_SYSTEM, "threads", "thread");
        atomic_store(&threads_left, -1);
        assert_null(ctx);
        assert_int_equal(att_alloc_live(), live);
        att_context_destroy(context_open(ATT_ISA_AUTO, 4));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool__any_threads_and_tasks__each_task_once),
        cmocka_unit_test(test_pool__fewer_threads_asked_for__no_other_takes_part),
        cmocka_unit_test(test_pool__many_rounds__none_lost),
        cmocka_unit_test(test_pool__destroyed_unused__joins),
        cmocka_unit_test(test_pool__several_callers__each_gets_its_own_work_done),
        cmocka_unit_test(test_pool__run_from_within_a_task__does_not_deadlock),
        cmocka_unit_test(test_context__nth_thread_refused__system_error_then_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
