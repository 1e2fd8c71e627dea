/* jobs.h: several jobs at once, each on its own thread and free to block, for example on a GPU.
 * For arithmetic use workers.h. */
#ifndef LAB_JOBS_H
#define LAB_JOBS_H

#include <stddef.h>

enum { LAB_JOBS_MOST = 64 };

/* Call work(context, i) once for every i in [0, count), started in this order, at most
 * `at_once` at a time; returns when all have finished. If `at_once` is 1, or no thread can be
 * created, the caller does them all. */
void lab_jobs_run(size_t count, int at_once, void (*work)(void *context, size_t i),
                  void *context);

#endif
