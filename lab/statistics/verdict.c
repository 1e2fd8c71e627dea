/* verdict.c: the rule of verdict.h. */
#include "lab/statistics/verdict.h"

#include <math.h>
#include <stdlib.h>

#include "lab/statistics/resample.h"
#include "lab/statistics/shuffle.h"

static const double alpha = 0.05;

/* Fewer processes have too few permutations to reach p <= alpha. */
enum { PROCESSES_A_SIDE = 4, PROCESSES_SHARED = 6 };

/* Logarithms of times, so that a relative change is a difference. */
typedef struct logs {
    double *values;
    uint32_t *process; /* numbered from 0 without gaps */
    size_t count, processes;
} logs;

static lab_samples samples_of(const logs *l) {
    return (lab_samples){.values = l->values, .count = l->count, .process = l->process};
}

static uint32_t process_of(const lab_samples *s, size_t i) {
    return s->process ? s->process[i] : 0;
}

static uint32_t round_of(const lab_samples *s, size_t i) {
    return s->round ? s->round[i] : (uint32_t)i;
}

static bool logs_create(logs *l, size_t capacity, lab_message *why) {
    l->values = malloc(capacity * sizeof *l->values);
    l->process = malloc(capacity * sizeof *l->process);
    return (l->values && l->process) ||
           lab_fail(why, "no memory to compare %zu samples", capacity);
}

static void logs_free(logs *l) {
    free(l->values);
    free(l->process);
}

static void logs_add(logs *l, double value, bool new_process) {
    l->processes += new_process;
    l->values[l->count] = value;
    l->process[l->count++] = (uint32_t)(l->processes - 1);
}

static bool check(const lab_samples *s, const char *side, lab_message *why) {
    if (s->count == 0)
        return lab_fail(why, "%s has no samples", side);
    for (size_t i = 0; i < s->count; i++)
        if (!isfinite(s->values[i]) || s->values[i] <= 0.0)
            return lab_fail(why, "%s: sample %zu is not a time above zero", side, i);
    return true;
}

static void take_logs(logs *l, const lab_samples *s) {
    for (size_t i = 0; i < s->count; i++)
        logs_add(l, log(s->values[i]), i == 0 || process_of(s, i) != process_of(s, i - 1));
}

/* The logarithm of the ratio for every round that both have. */
static void take_ratios(logs *l, const lab_samples *a, const lab_samples *b) {
    uint32_t last = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const uint32_t p = process_of(a, i), q = process_of(b, j);
        const uint32_t r = round_of(a, i), s = round_of(b, j);
        if (p == q && r == s) {
            logs_add(l, log(b->values[j] / a->values[i]), l->processes == 0 || p != last);
            last = p;
        }
        const bool a_behind = p < q || (p == q && r <= s);
        const bool b_behind = q < p || (p == q && s <= r);
        i += a_behind;
        j += b_behind;
    }
}

/* ------------------------------------------------------------------- the two designs */

/* The data to compare: two groups of logarithms, or one of ratios (then `b` is unused). */
typedef struct design {
    lab_pairing pairing;
    logs a, b;
    bool by_process;
    lab_member *members;
    lab_random random;
} design;

/* Tails of the effect less `shift`. */
static bool test_shift(design *d, double shift, lab_tails *tails, lab_message *why) {
    const logs *a = &d->a, *b = &d->b;
    const bool paired = d->pairing == LAB_PAIRED;
    for (size_t i = 0; i < a->count; i++)
        d->members[i] = (lab_member){.value = a->values[i] - (paired ? shift : 0.0),
                                     .unit = d->by_process ? a->process[i] : (uint32_t)i};
    if (paired)
        return lab_shuffle_signs(tails, d->members, a->count,
                                 d->by_process ? a->processes : a->count, &d->random, why);
    for (size_t i = 0; i < b->count; i++)
        d->members[a->count + i] =
            (lab_member){.value = b->values[i] - shift,
                         .unit = d->by_process ? (uint32_t)a->processes + b->process[i]
                                               : (uint32_t)(a->count + i),
                         .of_b = true};
    return lab_shuffle_groups(tails, d->members, a->count + b->count,
                              d->by_process ? a->processes + b->processes : a->count + b->count,
                              &d->random, why);
}

/* The effect and its bootstrap interval, as logarithms. */
static bool measure_effect(design *d, double *effect, double *low, double *high,
                           lab_message *why) {
    double effects[LAB_RESAMPLES];
    const bool paired = d->pairing == LAB_PAIRED;
    const lab_samples of_a = samples_of(&d->a), of_b = samples_of(&d->b);
    lab_resampler a = {0}, b = {0};
    const bool ok =
        lab_resampler_open(&a, &of_a, why) && (paired || lab_resampler_open(&b, &of_b, why));
    if (ok) {
        *effect = lab_quantile(a.sorted, a.count, 0.5);
        if (!paired)
            *effect = lab_quantile(b.sorted, b.count, 0.5) - *effect;
        double widening = lab_resample_widening(&a);
        if (!paired)
            widening = fmax(widening, lab_resample_widening(&b));
        for (int i = 0; i < LAB_RESAMPLES; i++) {
            effects[i] = lab_resample_median(&a, &d->random);
            if (!paired)
                effects[i] = lab_resample_median(&b, &d->random) - effects[i];
        }
        qsort(effects, LAB_RESAMPLES, sizeof *effects, lab_ascending);
        *low = *effect + widening * (lab_quantile(effects, LAB_RESAMPLES, 0.025) - *effect);
        *high = *effect + widening * (lab_quantile(effects, LAB_RESAMPLES, 0.975) - *effect);
    }
    lab_resampler_close(&a);
    lab_resampler_close(&b);
    return ok;
}

static lab_verdict_kind decide(const lab_verdict *v) {
    if (v->p_not_same <= alpha)
        return LAB_SAME;
    if (v->p_different <= alpha && v->effect >= v->minimum_effect)
        return LAB_SLOWER;
    if (v->p_different <= alpha && v->effect <= -v->minimum_effect)
        return LAB_FASTER;
    return LAB_AMBIGUOUS;
}

static bool judge(lab_verdict *out, design *d, double minimum_effect, lab_message *why) {
    double effect, low, high;
    lab_tails none, slower = {.lower = 1.0}, faster = {.upper = 1.0};
    if (!measure_effect(d, &effect, &low, &high, why) || !test_shift(d, 0.0, &none, why))
        return false;
    const double most = log1p(minimum_effect), least = log1p(-minimum_effect);
    /* An effect beyond the minimum cannot be shown to lie within it. */
    if (effect > least && effect < most &&
        (!test_shift(d, most, &slower, why) || !test_shift(d, least, &faster, why)))
        return false;
    *out = (lab_verdict){
        .effect = expm1(effect),
        .low = expm1(low),
        .high = expm1(high),
        .p_different = none.both,
        .p_not_same = fmax(slower.lower, faster.upper),
        .minimum_effect = minimum_effect,
        .by_process = d->by_process,
    };
    out->kind = decide(out);
    return true;
}

bool lab_verdict_of(lab_verdict *out, const lab_samples *a, const lab_samples *b,
                    lab_pairing pairing, double minimum_effect, uint64_t seed,
                    lab_message *why) {
    if (!(minimum_effect > 0.0 && minimum_effect < 1.0))
        return lab_fail(why, "a minimum effect of %g is not between 0 and 1", minimum_effect);
    if (!check(a, "A", why) || !check(b, "B", why))
        return false;
    design d = {.pairing = pairing};
    lab_random_seed(&d.random, seed, 1);
    bool ok = logs_create(&d.a, a->count, why) && logs_create(&d.b, b->count, why);
    d.members = malloc((a->count + b->count) * sizeof *d.members);
    if (ok && !d.members)
        ok = lab_fail(why, "no memory to compare %zu samples", a->count + b->count);
    if (ok && pairing == LAB_PAIRED) {
        take_ratios(&d.a, a, b);
        d.by_process = d.a.processes >= PROCESSES_SHARED;
        if (d.a.count == 0)
            ok = lab_fail(why, "A and B have no round in common");
    } else if (ok) {
        take_logs(&d.a, a);
        take_logs(&d.b, b);
        d.by_process = d.a.processes >= PROCESSES_A_SIDE && d.b.processes >= PROCESSES_A_SIDE;
    }
    ok = ok && judge(out, &d, minimum_effect, why);
    logs_free(&d.a);
    logs_free(&d.b);
    free(d.members);
    return ok;
}

const char *lab_verdict_name(lab_verdict_kind kind) {
    switch (kind) {
    case LAB_FASTER:
        return "FASTER";
    case LAB_SLOWER:
        return "SLOWER";
    case LAB_SAME:
        return "SAME";
    case LAB_AMBIGUOUS:
        return "AMBIGUOUS";
    }
    return "unknown";
}

double lab_minimum_effect(const lab_verdict *verdicts, size_t count) {
    double *reach = count ? malloc(count * sizeof *reach) : NULL;
    if (!reach)
        return LAB_MINIMUM_EFFECT;
    for (size_t i = 0; i < count; i++)
        reach[i] = fmax(fabs(verdicts[i].low), fabs(verdicts[i].high));
    qsort(reach, count, sizeof *reach, lab_ascending);
    const double effect = lab_quantile(reach, count, 0.95);
    free(reach);
    return fmin(fmax(effect, LAB_MINIMUM_EFFECT_FLOOR), LAB_MINIMUM_EFFECT_MOST);
}
