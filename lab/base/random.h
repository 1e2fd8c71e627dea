/* random.h: seeded random numbers, the same bits for the same seed on every machine.
 *
 * xoshiro256** by Blackman and Vigna, seeded through splitmix64. A normal number is the count of ones
 * in 44 random bits, smeared by 20 more over the step between two counts: close enough to normal for
 * test data, tails to 6 sigma, and no libm whose last bit could differ. */
#ifndef LAB_RANDOM_H
#define LAB_RANDOM_H

#include <stdint.h>

typedef struct lab_random {
    uint64_t state[4];
} lab_random;

/* `stream` picks one of 2^64 independent sequences of the same seed. */
void lab_random_seed(lab_random *random, uint64_t seed, uint64_t stream);

uint64_t lab_random_bits(lab_random *random);

/* Uniform in [0, bound); bound > 0. */
int64_t lab_random_below(lab_random *random, int64_t bound);

/* Uniform in [0, 1). */
double lab_random_unit(lab_random *random);

/* Mean 0, variance 1. */
float lab_random_normal(lab_random *random);

/* So many of them. */
void lab_random_normals(lab_random *random, float *list, int64_t count);

/* Go on as if `count` numbers had been drawn, in a microsecond or two: threads that fill parts of a tensor meet the numbers that one
 * would have met. Each of the functions above draws one number. Thread: safe. */
void lab_random_jump(lab_random *random, uint64_t count);

#endif
