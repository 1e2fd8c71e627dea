/* clock.c: CLOCK_MONOTONIC in nanoseconds; the date in UTC. */
#include "lab/base/clock.h"

#include <time.h>

uint64_t lab_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void lab_clock_utc(char *buf, size_t n) {
    const time_t now = time(NULL);
    struct tm utc;
    buf[0] = '\0';
    if (gmtime_r(&now, &utc))
        strftime(buf, n, "%Y-%m-%dT%H:%M:%SZ", &utc);
}
