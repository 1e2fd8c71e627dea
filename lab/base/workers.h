/* workers.h: threads for the laboratory's own arithmetic: contents of tensors, oracles, hashes.
 *
 * They start when first needed and stay, asleep while idle. Subjects never run on them. The
 * result of a work item must not depend on which thread computed it, nor on the number of
 * threads. */
#ifndef LAB_WORKERS_H
#define LAB_WORKERS_H

#include <stdint.h>

enum { LAB_WORKERS_MOST = 64 };

/* Call work(context, i) once for every i in [0, count), on all processors that this process may
 * use; the caller's thread works too. Every call runs with the default floating-point rules of
 * a C program. If the threads are busy for another caller, this caller does all the work alone.
 * Thread: safe. */
void lab_workers_run(int64_t count, void (*work)(void *context, int64_t i), void *context);

/* From now on use at most that many threads, including the caller's; 0: one per processor. Must
 * not be called while they work. */
void lab_workers_limit(int threads);

/* The number of threads. */
int lab_workers_count(void);

#endif
