/* verdict.h: is B faster than A? A verdict from raw samples, by permutation tests.
 *
 * The effect is the relative change of the median time, B over A, minus one: +0.03 is 3 % slower.
 * With m the minimum effect (the least that is called a difference, taken from A/A runs) and
 * alpha = 0.05:
 *
 *   SLOWER     effect >= +m, and the two-sided test of "no difference" has p <= alpha
 *   FASTER     effect <= -m, and the same
 *   SAME       the one-sided tests of "slower by m or more" and of "faster by m or more" both
 *              have p <= alpha: a difference of m would have been seen, and is not there
 *   AMBIGUOUS  anything else: the samples do not decide. Take more, or more processes
 *
 * A test shuffles what could as well have come from the other side, LAB_RESAMPLES times, and counts
 * how often chance gives an effect as large. What is shuffled:
 *   - samples of interleaved rivals (LAB_PAIRED): the two of a round change sides, so that what
 *     befell a round befell both. The effect is then the median of the ratios, round by round, and
 *     what is counted for it is in how many rounds B was the longer one.
 *   - otherwise single samples.
 *   - whole processes instead, where there are enough of them to decide anything: 4 on each side, or
 *     6 shared ones when paired. With fewer, the samples of a process count as independent, and it is
 *     the minimum effect, measured across processes, that covers their common luck.
 * Equal effects are told apart by rank sums: times that come in ticks make many equal medians. */
#ifndef LAB_VERDICT_H
#define LAB_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/base/message.h"
#include "lab/statistics/stats.h"

typedef enum lab_verdict_kind {
    LAB_FASTER,
    LAB_SLOWER,
    LAB_SAME,
    LAB_AMBIGUOUS
} lab_verdict_kind;

typedef enum lab_pairing {
    LAB_UNPAIRED, /* two runs: a baseline and a later one */
    LAB_PAIRED    /* one run: samples of the same process and round belong together */
} lab_pairing;

typedef struct lab_verdict {
    lab_verdict_kind kind;
    double effect;         /* of B against A: +0.03 is 3 % slower */
    double low, high;      /* its 95 % bootstrap interval; drawn, decides nothing */
    double p_different;    /* of "no difference" */
    double p_not_same;     /* the larger of the two one-sided tests'; 1: |effect| >= minimum */
    double minimum_effect; /* as given */
    bool by_process;       /* whole processes were shuffled */
} lab_verdict;

/* Where no A/A run says otherwise, and the least that one may say. */
#define LAB_MINIMUM_EFFECT       0.01
#define LAB_MINIMUM_EFFECT_FLOOR 0.005

/* The same for two runs of one process each, which say nothing of how processes differ. On an H200 the
 * same graphs took up to 4 % less from one moment on (lab/measure/comparison.h). */
#define LAB_MINIMUM_EFFECT_ALONE 0.05
/* And the most: above it no time could be FASTER. On a machine that noisy, verdicts stay open. */
#define LAB_MINIMUM_EFFECT_MOST 0.99

/* Compare B with A. Fails where samples are missing, not positive, or, when paired, share no round. */
bool lab_verdict_of(lab_verdict *out, const lab_samples *a, const lab_samples *b,
                    lab_pairing pairing, double minimum_effect, uint64_t seed,
                    lab_message *why);

/* "FASTER", "SLOWER", "SAME", "AMBIGUOUS". */
const char *lab_verdict_name(lab_verdict_kind kind);

/* The minimum effect that `count` A/A verdicts support: the 95 % quantile of how far their intervals
 * reach from zero, so that 95 of 100 such pairs are SAME; at least LAB_MINIMUM_EFFECT_FLOOR, at most LAB_MINIMUM_EFFECT_MOST, and
 * LAB_MINIMUM_EFFECT where there are none. */
double lab_minimum_effect(const lab_verdict *verdicts, size_t count);

#endif
