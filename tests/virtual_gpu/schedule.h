/* schedule.h: chooses the next lane to run, from a seed. */
#ifndef ATT_VGPU_SCHEDULE_H
#define ATT_VGPU_SCHEDULE_H

#include <stdint.h>

#include "tests/virtual_gpu/lanes.h"

/* A new launch: draw its schedule from the seed (ATTEST_VIRTUAL_SEED, or 1) and its number.
 * What ATTEST_VIRTUAL_SCHEDULE names is not drawn: words separated by commas,
 *   uniform | priorities         the next lane is any, or one of the warp with the highest
 *                                priority, which changes at times
 *   early | late | last          copies and products land soon, after a while, or when nothing
 *                                else can continue
 *   drift=N | drift=free         lanes of a warp are at most N visible instructions apart, or
 *                                not held together
 *   sleeper=N                    with drift=free: lane N of every warp continues only when
 *                                hardly any other lane can */
void schedule_begin(long launch);

/* In words, as ATTEST_VIRTUAL_SCHEDULE takes them. */
const char *schedule_words(void);
uint64_t schedule_seed(void);

uint64_t random_bits(void);
unsigned random_below(unsigned count);
double random_part(void); /* 0 to 1 */

/* The lane continues later; others first. */
void lane_yield(vgpu_lane *lane);

/* The same, sometimes. */
void lane_may_yield(vgpu_lane *lane);

/* The lane waits in `state` until something wakes it. */
void lane_block(vgpu_lane *lane, vgpu_state state);
void lane_wake(vgpu_lane *lane);

/* The lane sleeps: it continues at times, and when no other lane can. */
void lane_sleep(vgpu_lane *lane);

/* Run everything in the queue until it has ended, or a check failed. */
void schedule_run(void);

/* After a failure: return to schedule_run(), which then ends. */
_Noreturn void schedule_abandon(void);

#endif
