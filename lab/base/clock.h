/* clock.h: the one clock for all timing, and the date for documents. */
#ifndef LAB_CLOCK_H
#define LAB_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* Nanoseconds since an arbitrary start; monotonic, unaffected by changes of the date. */
uint64_t lab_clock_ns(void);

/* "2026-11-15T09:08:27Z"; "" if the system does not know. Needs 21 bytes. */
void lab_clock_utc(char *buf, size_t n);

#endif
