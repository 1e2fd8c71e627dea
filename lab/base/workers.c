/* workers.c: one thread pool for the process. */
#include "lab/base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "cpu/pool.h"
#include "lab/base/float_state.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static att_pool *pool;
static pid_t pool_owner; /* a fork does not inherit the threads and starts its own */
static int limit;        /* 0: no limit */

int lab_workers_count(void) {
    cpu_set_t set;
    if (limit)
        return limit;
    const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : count > LAB_WORKERS_MOST ? LAB_WORKERS_MOST : count;
}

static void drop_pool(void) {
    att_pool_destroy(pool);
    pool = NULL;
}

void lab_workers_limit(int threads) {
    pthread_mutex_lock(&lock);
    limit = threads > LAB_WORKERS_MOST ? LAB_WORKERS_MOST : threads;
    drop_pool();
    pthread_mutex_unlock(&lock);
}

/* The pool; NULL if no threads can be created. */
static att_pool *find_pool(int threads) {
    pthread_mutex_lock(&lock);
    if (pool && pool_owner != getpid())
        drop_pool();
    if (!pool && att_pool_create(&pool, threads) == ATT_OK)
        pool_owner = getpid();
    att_pool *found = pool;
    pthread_mutex_unlock(&lock);
    return found;
}

typedef struct errand {
    void (*work)(void *context, int64_t i);
    void *context;
} errand;

static void do_one(void *argument, int64_t i, int worker) {
    const errand *e = argument;
    (void)worker;
    lab_float_default(); /* a subject may have changed this thread's floating-point rules */
    e->work(e->context, i);
}

void lab_workers_run(int64_t count, void (*work)(void *context, int64_t i), void *context) {
    errand e = {work, context};
    const int threads = lab_workers_count();
    att_pool *found = count > 1 && threads > 1 ? find_pool(threads) : NULL;
    if (found) {
        att_pool_run(found, threads, count, do_one, &e);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        do_one(&e, i, 0);
}
