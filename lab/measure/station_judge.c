/* station_judge.c: judged samples. */
#include "lab/measure/station_judge.h"

#include <stdint.h>

#include "lab/base/entropy.h"
#include "lab/measure/station_turn.h"

/* Multiply-adds to judge one timed answer: a sample of rows, in addition to the full
 * verification. */
enum { TIMED_ANSWER_WORK = 20000000 };

/* The inputs of a larger station (in bytes) are not filled again: that would take longer than
 * the timing. */
static const double renewed_bytes_most = 0x1p28;

size_t lab_judge_next(size_t round) {
    return round + 1 + (size_t)(lab_entropy() % (2 * (round + 1)));
}

/* The number of sets that the calls of a sample use, and the index of the i-th. */
static size_t sets_in_use(const lab_station *s) {
    const size_t calls = s->owner->calls_per_sample;
    return calls < s->set_count ? calls : s->set_count;
}

static size_t set_in_use(const lab_station *s, size_t i) {
    return (s->first_used + i) % s->set_count;
}

bool lab_judge_renew(lab_station *s, bool back) {
    lab_message why;
    if (lab_spec_bytes(s->owner->spec) > renewed_bytes_most)
        return true;
    for (size_t i = 0; i < s->set_count; i++) {
        lab_input_set *set = &s->sets[i];
        if (!lab_tensors_renew(set->tensors, back ? set->seed : lab_entropy(), &why) ||
            !lab_mirror_upload_inputs(&set->mirror, &why))
            return lab_station_failed(s, why.text);
    }
    return true;
}

bool lab_judge_poison(lab_station *s) {
    lab_message why;
    for (size_t i = 0; i < s->set_count; i++) {
        lab_input_set *set = &s->sets[i];
        lab_tensors_poison_outputs(set->tensors);
        lab_workspace_poison(&set->workspace);
        /* In the order of the stream that the runs are on. */
        if (!lab_mirror_poison_outputs(&set->mirror, s->mirrors[0]->stream, &why))
            return lab_station_failed(s, why.text);
    }
    return true;
}

void lab_judge_look(lab_judge_glance *glance, const lab_station *s) {
    const uint64_t seed = lab_entropy();
    for (size_t n = 0; n < sets_in_use(s); n++) {
        const size_t i = set_in_use(s, n);
        glance->seed[i] = seed + i;
        glance->hash[i] = lab_tensors_glance(s->sets[i].tensors, seed + i);
    }
}

/* Check the answers with the oracle, the guards and the inputs of one set; true if all is
 * well. */
static bool judge(lab_station *s, size_t i, int64_t work) {
    lab_input_set *set = &s->sets[i];
    if (work == 0)
        work = s->options->judge_work ? s->options->judge_work : TIMED_ANSWER_WORK;
    const lab_verify_options options = {.max_work = 1 + work / (int64_t)sets_in_use(s)};
    lab_verify_result timed = s->owner->verify;
    lab_message why = {.text = ""};
    timed.message[0] = '\0';
    lab_verify_outputs(&timed, set->tensors, &options);
    if (timed.outcome != LAB_PASS)
        return lab_station_stop(s, LAB_FAIL, timed.message);
    lab_turn_back(s, i); /* an input that the subject changed does not turn back correctly */
    return (lab_tensors_check(set->tensors, &why) &&
            lab_workspace_check(&set->workspace, &why)) ||
           lab_station_stop(s, LAB_FAIL, why.text);
}

static bool judge_set(lab_station *s, size_t i, const lab_judge_glance *glance, bool first,
                      bool last, int64_t work) {
    lab_message why;
    lab_input_set *set = &s->sets[i];
    if (!lab_mirror_download_outputs(&set->mirror, &why) ||
        !lab_mirror_download_inputs(&set->mirror, &why))
        return lab_station_failed(s, why.text);
    const uint64_t settled = lab_tensors_hash_outputs(set->tensors);
    if (!judge(s, i, work))
        return false;
    /* An answer that is right now but was not then came too late. */
    const bool in_place = !set->mirror.gpu;
    if (lab_tensors_hash_outputs(set->tensors) != settled ||
        (in_place && lab_tensors_glance(set->tensors, glance->seed[i]) != glance->hash[i]))
        return lab_station_stop(s, LAB_FAIL, lab_late_answer);
    if (first)
        set->answer = settled;
    return !last || first || settled == set->answer ||
           lab_station_stop(s, LAB_FAIL, "the first and the last timed run differ");
}

void lab_judge_answer(lab_station *s, const lab_judge_glance *glance, bool first, bool last,
                      int64_t work) {
    for (size_t n = 0; n < sets_in_use(s); n++)
        if (!judge_set(s, set_in_use(s, n), glance, first, last, work))
            return;
}
