/* station_probe.c: probes taken, judged, and held against the samples. */
#include "lab/measure/station_probe.h"

#include <stdlib.h>
#include <string.h>

#include "lab/base/clock.h"
#include "lab/base/entropy.h"
#include "lab/measure/station_judge.h"
#include "lab/measure/station_turn.h"

/* Probes of a case: rounds up to FULL_ROUNDS have one every other time, later ones ever less often; before it fails a case has had
 * SURE more, unless they take too long. Multiply-adds for judging one. */
enum { FULL_ROUNDS = 16, FEWEST = 8, SURE = 64, JUDGE_WORK = 1000000 };
static const double sure_ns = 2e9;

/* A difference is one that is larger than this share and this time, of a call: caches have what was turned in another state. */
static const double probe_share = 0.25, probe_slack_ns = 50.0;

static bool is_wanted(const lab_station *s) {
    return lab_turn_is_possible(s) && s->owner->calls_per_sample > s->set_count;
}

bool lab_probe_is_due(const lab_station *s, size_t round) {
    const size_t one_in = round < FULL_ROUNDS ? 2 : 2 * round / FULL_ROUNDS;
    return is_wanted(s) && lab_entropy() % one_in == 0;
}

/* What two looks at the clock take by themselves, at least. */
static double clock_ns(void) {
    double least = 1e9;
    for (int i = 0; i < 32; i++) {
        const uint64_t before = lab_clock_ns();
        const double took = (double)(lab_clock_ns() - before);
        least = took < least ? took : least;
    }
    return least;
}

/* Time so many calls on inputs that change before each. */
static bool time_turning(lab_station *s, size_t calls, double *ns) {
    const uint64_t seed = lab_entropy();
    uint64_t sum = 0;
    s->first_used = s->turn;
    for (size_t i = 0; i < calls; i++) {
        lab_turn_set(s, (s->turn + i) % s->set_count, seed + i);
        const uint64_t before = lab_clock_ns();
        if (!lab_station_call(s, i))
            return false;
        sum += lab_clock_ns() - before;
    }
    s->turn += calls;
    *ns = (double)sum / (double)calls - clock_ns();
    return true;
}

/* Whether a call of a probe takes longer than one of a sample should. */
static bool exceeds(double probe_ns, double sample_ns) {
    return probe_ns > (1.0 + probe_share) * sample_ns + probe_slack_ns;
}

/* A sample that is not kept. */
static bool time_sample(lab_station *s, double *ns) {
    const bool ok = lab_station_lead(s) && (lab_turn_all(s, lab_entropy()), true) &&
                    lab_station_time(s, ns);
    lab_turn_back_all(s);
    return ok;
}

static bool time_probe(lab_station *s, double *ns) {
    const size_t calls = s->set_count + 1 + (size_t)(lab_entropy() % (2 * s->set_count + 8));
    const bool ok = lab_station_lead(s) && time_turning(s, calls, ns);
    if (ok) {
        lab_judge_glance glance;
        lab_judge_look(&glance, s);
        lab_judge_answer(s, &glance, false, false, JUDGE_WORK);
    }
    lab_turn_back_all(s);
    return ok && s->owner->timed;
}

void lab_probe_take(lab_station *s) {
    lab_probes *p = &s->probes;
    double probe_ns, sample_ns;
    const bool sample_first = lab_entropy() % 2;
    if ((sample_first && !time_sample(s, &sample_ns)) || !time_probe(s, &probe_ns) ||
        (!sample_first && !time_sample(s, &sample_ns)))
        return;
    p->fastest_ns = p->count == 0 || probe_ns < p->fastest_ns ? probe_ns : p->fastest_ns;
    p->slower += exceeds(probe_ns, sample_ns);
    p->count++;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a call of the fast samples takes: a tenth of them take less. Of the fastest alone one may be a freak; the median has the
 * machine's noise in it, behind which a difference can hide. Below 0 where memory ran out. */
static double fast_sample(const lab_bench_case *c) {
    double *sorted = malloc(c->sample_count * sizeof *sorted);
    if (!sorted)
        return -1.0;
    memcpy(sorted, c->samples_ns, c->sample_count * sizeof *sorted);
    qsort(sorted, c->sample_count, sizeof *sorted, by_size);
    const double ns = sorted[c->sample_count / 10];
    free(sorted);
    return ns;
}

/* Of a machine whose speed comes and goes, most pairs tell; of one whose noise comes in bursts, the fastest of all. */
static bool is_slower(const lab_probes *p, double sample_ns) {
    return exceeds(p->fastest_ns, sample_ns) || 2 * p->slower > p->count;
}

/* Until there are enough; more where they speak against the case: noise only ever adds, and falls on both. */
static void take_more(lab_station *s, double sample_ns) {
    const lab_probes *p = &s->probes;
    const uint64_t start = lab_clock_ns();
    const size_t sure = p->count + SURE;
    while (s->owner->timed &&
           (p->count < FEWEST || (is_slower(p, sample_ns) && p->count < sure &&
                                  (double)(lab_clock_ns() - start) < sure_ns)))
        lab_probe_take(s);
}

void lab_probe_judge(lab_station *s) {
    lab_message why;
    if (!s->owner->timed || !is_wanted(s) || s->owner->sample_count == 0)
        return;
    const double sample_ns = fast_sample(s->owner);
    if (sample_ns < 0.0) {
        lab_station_stop(s, LAB_FAIL, "no memory to compare its samples");
        return;
    }
    take_more(s, sample_ns);
    if (!s->owner->timed || !is_slower(&s->probes, sample_ns))
        return;
    lab_fail(&why,
             "a call on inputs that have just changed takes %.0f ns, one of the samples %.0f "
             "ns: not all calls of a sample compute",
             s->probes.fastest_ns, sample_ns);
    lab_station_stop(s, LAB_FAIL, why.text);
}
