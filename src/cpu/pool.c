/* pool.c: a pool of threads that wait by spinning briefly, then sleep. */
#include "cpu/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

/* How often a waiting thread polls before it sleeps: some tens of microseconds, so that the
 * threads of back-to-back runs stay awake, but an idle process uses no CPU. */
enum { SPINS = 4000 };

#define OPEN (UINT64_C(1) << 32)

struct att_pool {
    int threads;
    pid_t owner;        /* the process that started the threads */
    pthread_t *workers; /* threads - 1 of them */
    int started;
    pthread_mutex_t busy; /* held by the caller whose tasks run */
    pthread_mutex_t lock; /* guards sleeping; the atomics are read without it while spinning */
    pthread_cond_t wake, done;
    _Atomic uint64_t round; /* incremented for each run */
    _Atomic uint64_t gate;  /* OPEN while a run admits workers, plus how many are inside */
    atomic_bool stop;
    atomic_int asleep;
    _Atomic int64_t next; /* next task */
    int64_t count;
    int limit; /* workers from this index on do not take part */
    void (*work)(void *arg, int64_t i, int worker);
    void *arg;
};

typedef struct worker {
    att_pool *pool;
    int index;
} worker;

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void take_tasks(att_pool *pool, int index) {
    for (;;) {
        const int64_t i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (i >= pool->count)
            return;
        pool->work(pool->arg, i, index);
    }
}

/* Wait until the round is not `seen`; returns the new one. */
static uint64_t await_round(att_pool *pool, uint64_t seen) {
    for (int spin = 0; spin < SPINS; spin++) {
        const uint64_t round = atomic_load_explicit(&pool->round, memory_order_acquire);
        if (round != seen)
            return round;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->asleep, 1);
    while (atomic_load(&pool->round) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->asleep, 1);
    pthread_mutex_unlock(&pool->lock);
    return atomic_load(&pool->round);
}

/* Enter the run in progress. Returns false if its caller has already closed it: a worker that
 * is scheduled late never keeps the caller waiting. */
static bool go_in(att_pool *pool) {
    uint64_t gate = atomic_load(&pool->gate);
    while (gate & OPEN)
        if (atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1))
            return true;
    return false;
}

static void *worker_main(void *argument) {
    const worker self = *(worker *)argument;
    att_free(argument);
    att_pool *pool = self.pool;
    for (uint64_t seen = 0;;) {
        seen = await_round(pool, seen);
        if (atomic_load(&pool->stop))
            return NULL;
        if (!go_in(pool))
            continue;
        if (self.index < pool->limit)
            take_tasks(pool, self.index);
        if (atomic_fetch_sub(&pool->gate, 1) == 1) { /* the last one to leave a closed gate */
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->lock);
        }
    }
}

/* Start the next round. Earlier writes are visible to the workers. */
static void begin_round(att_pool *pool) {
    atomic_fetch_add_explicit(&pool->round, 1, memory_order_seq_cst);
    if (atomic_load(&pool->asleep) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
}

/* Close the gate and wait for the workers inside. */
static void end_round(att_pool *pool) {
    uint64_t inside = atomic_fetch_and(&pool->gate, ~OPEN) & ~OPEN;
    for (int spin = 0; inside && spin < SPINS; spin++) {
        relax();
        inside = atomic_load_explicit(&pool->gate, memory_order_acquire);
    }
    if (!inside)
        return;
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->gate) != 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void att_pool_run(att_pool *pool, int threads, int64_t count,
                  void (*work)(void *arg, int64_t i, int worker), void *arg) {
    const bool alone =
        threads == 1 || pool->threads == 1 || count <= 1 || getpid() != pool->owner;
    if (alone || pthread_mutex_trylock(&pool->busy) != 0) {
        for (int64_t i = 0; i < count; i++)
            work(arg, i, 0);
        return;
    }
    pool->work = work;
    pool->arg = arg;
    pool->count = count;
    pool->limit = threads;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->gate, OPEN, memory_order_release);
    begin_round(pool);
    take_tasks(pool, 0);
    end_round(pool);
    pthread_mutex_unlock(&pool->busy);
}

static int start_worker(att_pool *pool, int index) {
    worker *argument = att_alloc(sizeof *argument);
    if (!argument)
        return ENOMEM;
    *argument = (worker){pool, index + 1};
    const int error = pthread_create(&pool->workers[index], NULL, worker_main, argument);
    if (error)
        att_free(argument);
    return error;
}

att_status att_pool_create(att_pool **out, int threads) {
    *out = NULL;
    att_pool *pool = att_alloc(sizeof *pool);
    ATT_REQUIRE(pool, ATT_E_MEMORY, "", "out of memory for the thread pool");
    pool->threads = threads;
    pool->owner = getpid();
    pthread_mutex_init(&pool->busy, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->workers = att_alloc(sizeof *pool->workers * (size_t)threads);
    int error = pool->workers ? 0 : ENOMEM;
    while (!error && pool->started < threads - 1) {
        error = start_worker(pool, pool->started);
        pool->started += error == 0;
    }
    if (error) {
        att_pool_destroy(pool);
        if (error == ENOMEM)
            return att_fail(ATT_E_MEMORY, "threads", "out of memory for %d threads", threads);
        return att_fail(ATT_E_SYSTEM, "threads",
                        "threads=%d: a thread could not be started: %s", threads,
                        strerror(error));
    }
    *out = pool;
    return ATT_OK;
}

void att_pool_destroy(att_pool *pool) {
    if (!pool)
        return;
    if (getpid() ==
        pool->owner) { /* a fork has no threads to join, and must not touch their locks */
        atomic_store(&pool->stop, true);
        begin_round(pool);
        for (int i = 0; i < pool->started; i++)
            pthread_join(pool->workers[i], NULL);
        pthread_cond_destroy(&pool->done);
        pthread_cond_destroy(&pool->wake);
        pthread_mutex_destroy(&pool->lock);
        pthread_mutex_destroy(&pool->busy);
    }
    att_free(pool->workers);
    att_free(pool);
}
