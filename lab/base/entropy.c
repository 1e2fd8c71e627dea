/* entropy.c: 64 bits of getrandom(). */
#include "lab/base/entropy.h"

#include <sys/random.h>

#include "lab/base/clock.h"

uint64_t lab_entropy(void) {
    uint64_t bits;
    /* Before the kernel's pool is full, the clock has to do. */
    return getrandom(&bits, sizeof bits, GRND_NONBLOCK) == sizeof bits ? bits : lab_clock_ns();
}
