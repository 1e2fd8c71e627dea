/* clock.h: the one clock that everything is timed with, and the date for documents. */
#ifndef LAB_CLOCK_H
#define LAB_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* Nanoseconds since an arbitrary start; never goes back, unaffected by changes of the date. */
uint64_t lab_clock_ns(void);

/* "2026-11-15T09:08:27Z"; "" where the system does not know. 21 bytes suffice. */
void lab_clock_utc(char *buf, size_t n);

#endif
