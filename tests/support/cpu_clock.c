/* cpu_clock.c: the processor time of this process as the clock, so that a verdict on times on the CPU does not depend on
 * what else the machine does.
 *
 * Linked with --wrap=lab_clock_ns it is the laboratory's clock in a unit test. As a library of its own, preloaded, it is that
 * of the program: nothing else there asks for CLOCK_MONOTONIC. Time that is slept does not count. */
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t __wrap_lab_clock_ns(void);

uint64_t __wrap_lab_clock_ns(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#ifdef PRELOADED
__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now) {
    return (int)syscall(SYS_clock_gettime,
                        id == CLOCK_MONOTONIC ? CLOCK_PROCESS_CPUTIME_ID : id, now);
}
#endif
