/* moe_load.c: draws experts without replacement, evenly or by rank. */
#include "lab/moe/moe_load.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { STREAM_RANKS = 8100 };

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

void lab_moe_spread_of(lab_moe_spread *s, lab_moe_load load, int64_t experts, int64_t k,
                       uint64_t seed) {
    lab_random random;
    (void)k;
    lab_random_seed(&random, seed, STREAM_RANKS);
    *s = (lab_moe_spread){.load = load, .experts = experts};
    s->start = lab_random_below(&random, experts);
    s->step = 1 + lab_random_below(&random, experts);
    while (common_divisor(s->step, experts) != 1)
        s->step++;
    for (int64_t rank = 0; rank < experts; rank++)
        s->total += 1.0 / (double)(rank + 1);
}

static int32_t expert_of(const lab_moe_spread *s, int64_t rank) {
    return (int32_t)((s->start + rank * s->step) % s->experts);
}

static int64_t draw_rank(const lab_moe_spread *s, lab_random *random) {
    if (s->load != LAB_MOE_ZIPF)
        return lab_random_below(random, s->experts);
    double left = lab_random_unit(random) * s->total;
    int64_t rank = 0;
    while (rank + 1 < s->experts && (left -= 1.0 / (double)(rank + 1)) > 0.0)
        rank++;
    return rank;
}

/* A repeated expert is drawn again, a few times; then the next free rank is taken. */
static int64_t draw_free(const lab_moe_spread *s, lab_random *random, const bool *taken) {
    enum { TRIES = 64 };
    int64_t rank = draw_rank(s, random);
    for (int n = 0; taken[rank] && n < TRIES; n++)
        rank = draw_rank(s, random);
    while (taken[rank])
        rank = (rank + 1) % s->experts;
    return rank;
}

void lab_moe_choose(const lab_moe_spread *s, lab_random *random, int64_t k, int32_t *ids) {
    bool taken[ATT_MOE_EXPERTS_MAX];
    memset(taken, 0, (size_t)s->experts * sizeof *taken);
    for (int64_t j = 0; j < k; j++) {
        const bool fixed = s->load == LAB_MOE_FEW || (s->load == LAB_MOE_ONE && j == 0);
        const int64_t rank = fixed ? j : draw_free(s, random, taken);
        taken[rank] = true;
        ids[j] = expert_of(s, rank);
    }
}

/* The expected number of experts with tokens if a token goes to each with probability p. */
static double reached(double experts, double p, double tokens) {
    return experts * (1.0 - pow(1.0 - p, tokens));
}

/* The probability of a rank to be among k drawn without replacement is close to 1 - exp(-c /
 * (rank + 1)), with c such that the probabilities sum to k. */
static double zipf_reached(int64_t experts, double k, double tokens) {
    double low = 0.0, high = 1e6, sum = 0.0;
    for (int n = 0; n < 60; n++) {
        const double c = 0.5 * (low + high);
        double total = 0.0;
        for (int64_t rank = 0; rank < experts; rank++)
            total += 1.0 - exp(-c / (double)(rank + 1));
        *(total < k ? &low : &high) = c;
    }
    for (int64_t rank = 0; rank < experts; rank++)
        sum += reached(1.0, 1.0 - exp(-low / (double)(rank + 1)), tokens);
    return sum;
}

double lab_moe_distinct(lab_moe_load load, int64_t experts, int64_t k, double tokens) {
    const double e = (double)experts;
    if (tokens == 0.0)
        return 0.0;
    switch (load) {
    case LAB_MOE_FEW:
        return (double)k;
    case LAB_MOE_ONE:
        return 1.0 +
               (experts > 1 ? reached(e - 1.0, (double)(k - 1) / (e - 1.0), tokens) : 0.0);
    case LAB_MOE_ZIPF:
        return zipf_reached(experts, (double)k, tokens);
    default:
        return reached(e, (double)k / e, tokens);
    }
}
