/* races_clock.h: clocks: up to which of its times each lane of some blocks is known. Used only
 * by races.c. */
#ifndef ATT_VGPU_RACES_CLOCK_H
#define ATT_VGPU_RACES_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/virtual_gpu/races.h"

/* The lanes of one block. */
typedef struct races_times {
    int references;
    int count;
    uint32_t block; /* its number */
    uint32_t launch;
    uint32_t at[];
} races_times;

/* The holder of the only reference may write; otherwise it is immutable. The same is true of
 * the times in it. */
struct races_clock {
    int references;
    int count;
    uint32_t launches; /* everything of launches before this one is known */
    races_times *of[]; /* by number of the block, rising */
};

races_clock *clock_of_block(uint32_t block, uint32_t launch,
                            int lanes); /* that knows nothing */
races_clock *clock_of_launches(uint32_t launches);

/* NULL: nothing is known of the block. */
races_times *clock_times(const races_clock *clock, uint32_t block);

/* What one of both knows. A new reference, often to one of them. */
races_clock *clock_joined(races_clock *a, races_clock *b);

/* The same, in place of *clock, which may be NULL. */
void clock_add(races_clock **clock, races_clock *other);

/* *clock becomes a copy if others refer to it. It has times of the block. */
void clock_set_time(races_clock **clock, uint32_t block, int lane, uint32_t time);

#endif
