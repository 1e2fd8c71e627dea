/* random.h: seeded random numbers, the same bits for the same seed on every machine.
 *
 * xoshiro256** by Blackman and Vigna, seeded through splitmix64. A normal number is the count
 * of ones in 44 random bits, spread by 20 more bits over the step between two counts. This is
 * close enough to normal for test data, has tails to 6 sigma, and uses no libm function whose
 * last bit could differ. */
#ifndef LAB_RANDOM_H
#define LAB_RANDOM_H

#include <stdint.h>

typedef struct lab_random {
    uint64_t state[4];
} lab_random;

/* `stream` selects one of 2^64 independent sequences of the same seed. */
void lab_random_seed(lab_random *random, uint64_t seed, uint64_t stream);

uint64_t lab_random_bits(lab_random *random);

/* Uniform in [0, bound); bound > 0. */
int64_t lab_random_below(lab_random *random, int64_t bound);

/* Uniform in [0, 1). */
double lab_random_unit(lab_random *random);

/* Mean 0, variance 1. */
float lab_random_normal(lab_random *random);

/* `count` normal numbers. */
void lab_random_normals(lab_random *random, float *list, int64_t count);

/* Advance as if `count` numbers had been drawn; takes a microsecond or two. Threads that fill
 * parts of a tensor thus get the same numbers as one thread would. Each of the functions above
 * draws one number. Thread: safe. */
void lab_random_jump(lab_random *random, uint64_t count);

#endif
