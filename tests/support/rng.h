/* rng.h: a small seeded generator (splitmix64), the same on every machine. */
#ifndef TESTS_SUPPORT_RNG_H
#define TESTS_SUPPORT_RNG_H

#include <stdint.h>

static inline uint64_t rng_next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, n); n > 0. */
static inline int64_t rng_below(uint64_t *state, int64_t n) {
    return (int64_t)(rng_next(state) % (uint64_t)n);
}

/* Uniform in [-1, 1). */
static inline float rng_signed(uint64_t *state) {
    return (float)(rng_next(state) >> 40) * 0x1p-23f - 1.0f;
}

#endif
