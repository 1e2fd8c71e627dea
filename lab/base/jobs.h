/* jobs.h: several errands at once, each on a thread of its own and free to wait, as for a GPU. Arithmetic is for workers.h. */
#ifndef LAB_JOBS_H
#define LAB_JOBS_H

#include <stddef.h>

enum { LAB_JOBS_MOST = 64 };

/* Call work(context, i) once for every i in [0, count), in this order, up to `at_once` at a time; returns when all have ended.
 * At once 1, or where no thread can be had, the caller does them all. */
void lab_jobs_run(size_t count, int at_once, void (*work)(void *context, size_t i),
                  void *context);

#endif
