/* random.c: xoshiro256** and numbers made from its bits by exact arithmetic. */
#include "lab/base/random.h"

#include <pthread.h>

static uint64_t splitmix64(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t rotate_left(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

void lab_random_seed(lab_random *random, uint64_t seed, uint64_t stream) {
    /* Mix the stream number before combining it with the seed: adjacent streams and seeds must
     * not give related sequences. */
    uint64_t mixed = stream;
    uint64_t state = seed ^ splitmix64(&mixed);
    for (int i = 0; i < 4; i++)
        random->state[i] = splitmix64(&state);
}

uint64_t lab_random_bits(lab_random *random) {
    uint64_t *s = random->state;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

int64_t lab_random_below(lab_random *random, int64_t bound) {
    /* A plain modulus: its bias is below bound / 2^64. */
    return (int64_t)(lab_random_bits(random) % (uint64_t)bound);
}

double lab_random_unit(lab_random *random) {
    return (double)(lab_random_bits(random) >> 11) * 0x1p-53;
}

/* Population count by adding neighbours, then pairs, then nibbles; needs no special
 * instruction. */
static int count_ones(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (int)(x * 0x0101010101010101u >> 56);
}

float lab_random_normal(lab_random *random) {
    const uint64_t bits = lab_random_bits(random);
    const int ones = count_ones(bits >> 20) - 22;                    /* in 44 bits */
    const float between = (float)(bits & 0xfffff) * 0x1p-20f - 0.5f; /* the other 20 */
    const float sigma_inverse = 0x1.3395bp-2f;                       /* 1 / sqrt(11 + 1/12) */
    return ((float)ones + between) * sigma_inverse;
}

void lab_random_normals(lab_random *random, float *list, int64_t count) {
    lab_random own = *random;
    for (int64_t i = 0; i < count; i++)
        list[i] = lab_random_normal(&own);
    *random = own;
}

/* ------------------------------------------------------------------------------ jumps */

/* A step is linear in the bits of the state, so 2^n steps are a bit matrix: column i is the
 * image of the state with only bit i set. Each matrix is the square of the one before. */
enum { STATE_BITS = 256, POWERS = 44 };

typedef struct steps {
    lab_random column[STATE_BITS];
} steps;

static steps powers[POWERS];

static void apply(const steps *matrix, lab_random *random) {
    lab_random sum = {{0}};
    for (int i = 0; i < STATE_BITS; i++) {
        const uint64_t keep = 0 - (random->state[i / 64] >> (i % 64) & 1);
        for (int word = 0; word < 4; word++)
            sum.state[word] ^= matrix->column[i].state[word] & keep;
    }
    *random = sum;
}

static void make_powers(void) {
    for (int i = 0; i < STATE_BITS; i++) {
        lab_random *column = &powers[0].column[i];
        column->state[i / 64] = (uint64_t)1 << (i % 64);
        lab_random_bits(column);
    }
    for (int n = 1; n < POWERS; n++)
        for (int i = 0; i < STATE_BITS; i++) {
            powers[n].column[i] = powers[n - 1].column[i];
            apply(&powers[n - 1], &powers[n].column[i]);
        }
}

void lab_random_jump(lab_random *random, uint64_t count) {
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    pthread_once(&made, make_powers);
    for (; count >> POWERS; count -= (uint64_t)1 << POWERS) {
        apply(&powers[POWERS - 1], random);
        apply(&powers[POWERS - 1], random);
    }
    for (int n = 0; n < POWERS; n++)
        if (count >> n & 1)
            apply(&powers[n], random);
}
