/* pool.h: the threads of a context.
 *
 * Own threads in place of OpenMP: they survive fork, nothing is allocated in a run, a data-race
 * checker can follow them, and the library brings no OpenMP runtime into its host. */
#ifndef ATT_CPU_POOL_H
#define ATT_CPU_POOL_H

#include <stdint.h>

#include "attest.h"

typedef struct att_pool att_pool;

/* `threads` counts the caller's, so threads - 1 are started. */
att_status att_pool_create(att_pool **out, int threads);
void att_pool_destroy(att_pool *pool);

/* Call work(arg, i, worker) once for every i in [0, count), on at most `threads` threads,
 * worker in [0, threads); returns when all have ended. The caller works too, as worker 0. Where
 * the pool is busy with another caller's tasks, or the process is a fork that has not got the
 * threads, the caller does the whole of its own work alone. */
void att_pool_run(att_pool *pool, int threads, int64_t count,
                  void (*work)(void *arg, int64_t i, int worker), void *arg);

#endif
