/* pool.h: the threads of a context.
 *
 * The library uses its own threads instead of OpenMP: they survive fork, nothing is allocated
 * in a run, a data-race checker can follow them, and the library brings no OpenMP runtime into
 * its host. */
#ifndef ATT_CPU_POOL_H
#define ATT_CPU_POOL_H

#include <stdint.h>

#include "attest.h"

typedef struct att_pool att_pool;

/* `threads` includes the caller's, so threads - 1 are started. */
att_status att_pool_create(att_pool **out, int threads);
void att_pool_destroy(att_pool *pool);

/* Call work(arg, i, worker) once for every i in [0, count), on at most `threads` threads, with
 * worker in [0, threads); returns when all calls have ended. The caller takes part as worker 0.
 * If the pool is busy with another caller's tasks, or the process is a fork without the
 * threads, the caller does all of its work alone. */
void att_pool_run(att_pool *pool, int threads, int64_t count,
                  void (*work)(void *arg, int64_t i, int worker), void *arg);

#endif
