/* verdict.h: is B faster than A? A verdict from raw samples, by permutation tests.
 *
 * The effect is the relative change of the median time, B over A, minus one: +0.03 is 3 %
 * slower. With m the minimum effect (the smallest that counts as a difference, taken from A/A
 * runs) and alpha = 0.05:
 *
 *   SLOWER     effect >= +m, and the two-sided test of "no difference" has p <= alpha
 *   FASTER     effect <= -m, and the same
 *   SAME       the one-sided tests of "slower by m or more" and of "faster by m or more" both
 *              have p <= alpha: a difference of m would have been seen, and there is none
 *   AMBIGUOUS  anything else: the samples do not decide. Take more, or more processes
 *
 * A test shuffles exchangeable units between the sides, LAB_RESAMPLES times, and counts how
 * often chance gives an effect as large. The units are:
 *   - samples of interleaved rivals (LAB_PAIRED): the two of a round change sides, because any
 *     disturbance of a round affects both. The effect is then the median of the ratios per
 *     round, and its test statistic is the number of rounds in which B took longer.
 *   - otherwise single samples.
 *   - whole processes instead, if there are enough of them to decide anything: 4 on each side,
 *     or 6 shared ones when paired. With fewer, the samples of a process count as independent,
 *     and the minimum effect, measured across processes, covers what they have in common.
 * Rank sums break ties between equal effects: times that come in clock ticks give many equal
 * medians. */
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
    LAB_PAIRED    /* one run: samples of the same process and round are paired */
} lab_pairing;

typedef struct lab_verdict {
    lab_verdict_kind kind;
    double effect;         /* of B relative to A: +0.03 is 3 % slower */
    double low, high;      /* its 95 % bootstrap interval; for plots, not used to decide */
    double p_different;    /* of "no difference" */
    double p_not_same;     /* the larger p of the two one-sided tests; 1: |effect| >= minimum */
    double minimum_effect; /* as given */
    bool by_process;       /* whole processes were shuffled */
} lab_verdict;

/* The default without an A/A run, and the least that an A/A run may give. */
#define LAB_MINIMUM_EFFECT       0.01
#define LAB_MINIMUM_EFFECT_FLOOR 0.005

/* The same for two runs of one process each, which do not show how processes differ. On an H200
 * the same graphs suddenly became up to 4 % faster (lab/measure/comparison.h). */
#define LAB_MINIMUM_EFFECT_ALONE 0.05
/* The largest minimum effect: above it no time could be FASTER. On a machine that noisy,
 * verdicts stay AMBIGUOUS. */
#define LAB_MINIMUM_EFFECT_MOST 0.99

/* Compare B with A. Fails if samples are missing, not positive, or, when paired, share no
 * round. */
bool lab_verdict_of(lab_verdict *out, const lab_samples *a, const lab_samples *b,
                    lab_pairing pairing, double minimum_effect, uint64_t seed,
                    lab_message *why);

/* "FASTER", "SLOWER", "SAME", "AMBIGUOUS". */
const char *lab_verdict_name(lab_verdict_kind kind);

/* The minimum effect that `count` A/A verdicts support: the 95 % quantile of how far their
 * intervals extend from zero, so that 95 of 100 such pairs are SAME. At least
 * LAB_MINIMUM_EFFECT_FLOOR, at most LAB_MINIMUM_EFFECT_MOST, and LAB_MINIMUM_EFFECT if there
 * are none. */
double lab_minimum_effect(const lab_verdict *verdicts, size_t count);

#endif
