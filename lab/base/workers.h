/* workers.h: threads for the laboratory's own arithmetic: contents of tensors, oracles, hashes.
 *
 * They are started when first needed and stay, asleep while there is nothing to do. Subjects never run on them. What a piece of
 * work leaves must not depend on which thread did it, nor on how many there are. */
#ifndef LAB_WORKERS_H
#define LAB_WORKERS_H

#include <stdint.h>

enum { LAB_WORKERS_MOST = 64 };

/* Call work(context, i) once for every i in [0, count), on all processors that this process may use; the caller's thread works too.
 * Every call finds the arithmetic as a C program does when it starts. Where the threads are at work for somebody else, the caller
 * does all of it alone. Thread: safe. */
void lab_workers_run(int64_t count, void (*work)(void *context, int64_t i), void *context);

/* From now on at most so many threads, the caller's among them; 0: as many as there are processors. Not while they are at work. */
void lab_workers_limit(int threads);

/* How many that are. */
int lab_workers_count(void);

#endif
