/* station_probe.c: takes probes, judges them and compares them with the samples. */
#include "lab/measure/station_probe.h"

#include <math.h>

#include "lab/base/clock.h"
#include "lab/base/entropy.h"
#include "lab/measure/station_judge.h"
#include "lab/measure/station_turn.h"

/* Probes per case: rounds up to FULL_ROUNDS have one every other time, later rounds less and
 * less often. Before a case fails it gets SURE more probes, unless they take too long. The last
 * is the multiply-adds to judge one. */
enum { FULL_ROUNDS = 16, FEWEST = 8, FEWEST_SLOWER = 24, SURE = 64, JUDGE_WORK = 1000000 };
static const double sure_ns = 2e9;

/* A difference counts if it is larger than this fraction and this time per call: turning the
 * inputs leaves the caches in a different state. */
static const double probe_share = 0.25, probe_slack_ns = 50.0;

static bool is_wanted(const lab_station *s) {
    return lab_turn_is_possible(s) && s->owner->calls_per_sample > s->set_count;
}

bool lab_probe_is_due(const lab_station *s, size_t round) {
    const size_t one_in = round < FULL_ROUNDS ? 2 : 2 * round / FULL_ROUNDS;
    return is_wanted(s) && lab_entropy() % one_in == 0;
}

/* The least time between two readings of the clock. */
static double clock_ns(void) {
    double least = 1e9;
    for (int i = 0; i < 32; i++) {
        const uint64_t before = lab_clock_ns();
        const double took = (double)(lab_clock_ns() - before);
        least = took < least ? took : least;
    }
    return least;
}

/* Time that many calls, with the inputs changed before each. */
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

/* Whether a call of a probe takes longer than a call of a sample allows. */
static bool exceeds(double probe_ns, double sample_ns) {
    return probe_ns > (1.0 + probe_share) * sample_ns + probe_slack_ns;
}

/* Time a sample that is not kept. */
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
    p->fastest_ns = p->count == 0 ? probe_ns : fmin(probe_ns, p->fastest_ns);
    p->fastest_beside_ns = p->count == 0 ? sample_ns : fmin(sample_ns, p->fastest_beside_ns);
    p->slower += exceeds(probe_ns, sample_ns);
    p->count++;
}

/* At least two of three: on a machine with varying speed some are slower and some are
 * faster. */
static bool are_slower(const lab_probes *p) {
    return 3 * p->slower > 2 * p->count;
}

/* Take probes until there are enough; more if they speak against the case. */
static void take_more(lab_station *s) {
    const lab_probes *p = &s->probes;
    const uint64_t start = lab_clock_ns();
    const size_t sure = p->count + SURE;
    while (s->owner->timed &&
           (p->count < FEWEST ||
            (are_slower(p) && p->count < sure &&
             (p->count < FEWEST_SLOWER || (double)(lab_clock_ns() - start) < sure_ns))))
        lab_probe_take(s);
}

void lab_probe_judge(lab_station *s) {
    const lab_probes *p = &s->probes;
    lab_message why;
    if (!s->owner->timed || !is_wanted(s))
        return;
    take_more(s);
    if (!s->owner->timed || !are_slower(p))
        return;
    lab_fail(&why,
             "a call on inputs that have just changed takes %.0f ns, one of a sample %.0f ns: "
             "not all calls of a sample compute",
             p->fastest_ns, p->fastest_beside_ns);
    lab_station_stop(s, LAB_FAIL, why.text);
}
