/* entropy.c: 64 bits of getrandom(). */
#include "lab/base/entropy.h"

#include <sys/random.h>

#include "lab/base/clock.h"

uint64_t lab_entropy(void) {
    uint64_t bits;
    /* Until the kernel's pool is initialised, use the clock instead. */
    return getrandom(&bits, sizeof bits, GRND_NONBLOCK) == sizeof bits ? bits : lab_clock_ns();
}
