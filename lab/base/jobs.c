/* jobs.c: threads that take the next job until none is left. */
#include "lab/base/jobs.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct errands {
    size_t count;
    atomic_size_t next;
    void (*work)(void *context, size_t i);
    void *context;
} errands;

static void *take(void *argument) {
    errands *e = argument;
    for (size_t i; (i = atomic_fetch_add(&e->next, 1)) < e->count;)
        e->work(e->context, i);
    return NULL;
}

void lab_jobs_run(size_t count, int at_once, void (*work)(void *context, size_t i),
                  void *context) {
    errands e = {.count = count, .work = work, .context = context};
    pthread_t threads[LAB_JOBS_MOST];
    const size_t most = at_once < 1               ? 1
                        : at_once > LAB_JOBS_MOST ? LAB_JOBS_MOST
                                                  : (size_t)at_once;
    const size_t wanted = most < count ? most : count;
    size_t started = 1; /* this thread works too */
    while (started < wanted && pthread_create(&threads[started], NULL, take, &e) == 0)
        started++;
    take(&e);
    for (size_t i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
}
