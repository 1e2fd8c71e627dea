/* shuffle.c: permutation of labels between two groups, and of signs among differences. */
#include "lab/statistics/shuffle.h"

#include <math.h>
#include <stdlib.h>

#include "lab/statistics/resample.h"

/* Two effects closer than this are equal: logarithms of equal times differ only by rounding. */
static const double same_effect = 1e-12;

/* The score of a shuffle: the effect or its substitute, and the rank sum to break ties. */
typedef struct score {
    double effect, ranks;
} score;

/* -1, 0 or 1 as x is less than, equal to or greater than y. */
static int compare(score x, score y) {
    if (fabs(x.effect - y.effect) > same_effect)
        return x.effect > y.effect ? 1 : -1;
    return (x.ranks > y.ranks) - (x.ranks < y.ranks);
}

static score magnitude(score x) {
    return (score){fabs(x.effect), fabs(x.ranks)};
}

typedef struct tally {
    score actual;
    size_t both, upper, lower;
} tally;

static void count_shuffle(tally *t, score shuffled) {
    t->both += compare(magnitude(shuffled), magnitude(t->actual)) >= 0;
    t->upper += compare(shuffled, t->actual) >= 0;
    t->lower += compare(shuffled, t->actual) <= 0;
}

static void finish(lab_tails *out, const tally *t) {
    const double all = LAB_RESAMPLES + 1.0;
    out->both = ((double)t->both + 1.0) / all;
    out->upper = ((double)t->upper + 1.0) / all;
    out->lower = ((double)t->lower + 1.0) / all;
}

static int by_value(const void *left, const void *right) {
    return lab_ascending(&((const lab_member *)left)->value,
                         &((const lab_member *)right)->value);
}

/* By distance from zero. */
static int by_magnitude(const void *left, const void *right) {
    const double a = fabs(((const lab_member *)left)->value);
    const double b = fabs(((const lab_member *)right)->value);
    return (a > b) - (a < b);
}

/* Ranks, from 1, of sorted members; equal members share their mean rank. */
static void rank(double *ranks, const lab_member *sorted, size_t count, bool magnitudes) {
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count; end++) {
            const double a = sorted[i].value, b = sorted[end].value;
            if (fabs(magnitudes ? fabs(a) - fabs(b) : a - b) > same_effect)
                break;
        }
        for (size_t j = i; j < end; j++)
            ranks[j] = 0.5 * (double)(i + 1 + end);
    }
}

/* -------------------------------------------------------------------------- groups */

/* The score if unit u is on side of_b[u]; one pass over the sorted members. */
static score score_groups(const lab_member *sorted, const double *ranks, size_t count,
                          const bool *of_b) {
    size_t size = 0; /* of B */
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        const bool side = of_b[sorted[i].unit];
        size += side;
        sum += side ? ranks[i] : 0.0;
    }
    const size_t sizes[2] = {count - size, size};
    const double mean_a = (0.5 * (double)count * (double)(count + 1) - sum) / (double)sizes[0];
    score result = {.ranks = sum / (double)size - mean_a};
    /* A median is the mean of the lower and the upper middle. */
    for (int side = 0; side < 2; side++) {
        const size_t lower = (sizes[side] - 1) / 2, upper = sizes[side] / 2;
        size_t seen = 0, i = 0;
        while (seen <= lower)
            seen += of_b[sorted[i++].unit] == side;
        const double first = sorted[i - 1].value;
        while (seen <= upper)
            seen += of_b[sorted[i++].unit] == side;
        const double median = 0.5 * (first + sorted[i - 1].value);
        result.effect += side ? median : -median;
    }
    return result;
}

static void shuffle(bool *of_b, size_t units, lab_random *random) {
    for (size_t i = units; i > 1; i--) {
        /* The upper half of the bits scaled to [0, i): faster than a division and equally
         * fair. */
        const size_t j = (size_t)((lab_random_bits(random) >> 32) * i >> 32);
        const bool kept = of_b[i - 1];
        of_b[i - 1] = of_b[j];
        of_b[j] = kept;
    }
}

bool lab_shuffle_groups(lab_tails *out, lab_member *members, size_t count, size_t units,
                        lab_random *random, lab_message *why) {
    double *ranks = malloc(count * sizeof *ranks);
    bool *of_b = malloc(units * sizeof *of_b);
    const bool ok = ranks && of_b;
    if (ok) {
        for (size_t i = 0; i < count; i++)
            of_b[members[i].unit] = members[i].of_b;
        qsort(members, count, sizeof *members, by_value);
        rank(ranks, members, count, false);
        tally t = {.actual = score_groups(members, ranks, count, of_b)};
        for (int i = 0; i < LAB_RESAMPLES; i++) {
            shuffle(of_b, units, random);
            count_shuffle(&t, score_groups(members, ranks, count, of_b));
        }
        finish(out, &t);
    }
    free(ranks);
    free(of_b);
    return ok || lab_fail(why, "no memory to shuffle %zu samples", count);
}

/* --------------------------------------------------------------------------- signs */

static score score_signs(const lab_member *sorted, const double *ranks, size_t count,
                         const bool *flipped) {
    score result = {0.0, 0.0};
    for (size_t i = 0; i < count; i++) {
        const double value = flipped[sorted[i].unit] ? -sorted[i].value : sorted[i].value;
        const double sign = fabs(value) <= same_effect ? 0.0 : value > 0.0 ? 1.0 : -1.0;
        result.effect += sign;
        result.ranks += sign * ranks[i];
    }
    return result;
}

bool lab_shuffle_signs(lab_tails *out, lab_member *members, size_t count, size_t units,
                       lab_random *random, lab_message *why) {
    double *ranks = malloc(count * sizeof *ranks);
    bool *flipped = calloc(units, sizeof *flipped);
    const bool ok = ranks && flipped;
    if (ok) {
        qsort(members, count, sizeof *members, by_magnitude);
        rank(ranks, members, count, true);
        tally t = {.actual = score_signs(members, ranks, count, flipped)};
        for (int i = 0; i < LAB_RESAMPLES; i++) {
            for (size_t u = 0; u < units; u++)
                flipped[u] = lab_random_bits(random) >> 63;
            count_shuffle(&t, score_signs(members, ranks, count, flipped));
        }
        finish(out, &t);
    }
    free(ranks);
    free(flipped);
    return ok || lab_fail(why, "no memory to shuffle %zu samples", count);
}
