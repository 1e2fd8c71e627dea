/* simulated_clock.h: a clock for lab/ that no other program on the machine can disturb.
 *
 * A test that is linked with these functions wrapped (SIMULATED_CLOCK in mk/test.mk) and calls
 * simulated_clock_start() has a clock that stands still except for what is counted here: every
 * reading, every call, every copy and hash of a saboteur, and the harness's own work
 * between two calls. Unpredictable numbers come from a fixed seed. A thread that runs a plan
 * while the test's own thread goes on does so only when that one waits for it: always too
 * late. */
#ifndef TESTS_SUPPORT_SIMULATED_CLOCK_H
#define TESTS_SUPPORT_SIMULATED_CLOCK_H

/* The clock of the calling thread's test. */
void simulated_clock_start(void);

#endif
