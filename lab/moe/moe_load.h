/* moe_load.h: how tokens are spread over experts: drawn for the contents of a problem, and
 * expected for its work. */
#ifndef LAB_MOE_LOAD_H
#define LAB_MOE_LOAD_H

#include "lab/base/random.h"
#include "lab/problem/spec.h"

typedef struct lab_moe_spread {
    lab_moe_load load;
    int64_t experts;
    int64_t start, step; /* which expert has which rank; depends on the seed */
    double total;        /* sum of 1 / (rank + 1) */
} lab_moe_spread;

void lab_moe_spread_of(lab_moe_spread *spread, lab_moe_load load, int64_t experts, int64_t k,
                       uint64_t seed);

/* Draw k different experts for one token. */
void lab_moe_choose(const lab_moe_spread *spread, lab_random *random, int64_t k, int32_t *ids);

/* The expected number of experts that `tokens` tokens of k experts each go to. */
double lab_moe_distinct(lab_moe_load load, int64_t experts, int64_t k, double tokens);

#endif
