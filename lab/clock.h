/* clock.h: the one clock that everything is timed with. */
#ifndef LAB_CLOCK_H
#define LAB_CLOCK_H

#include <stdint.h>

/* Nanoseconds since an arbitrary start; never goes back, unaffected by changes of the date. */
uint64_t lab_clock_ns(void);

#endif
