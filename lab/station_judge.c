/* station_judge.c: judged samples. */
#include "lab/station_judge.h"

#include <stdint.h>

#include "lab/entropy.h"

/* Multiply-adds for judging one timed answer: a sample of rows, on top of the full verification. */
enum { TIMED_ANSWER_WORK = 20000000 };

/* Above this the inputs of a station are not filled again: it would take longer than the timing. */
static const double renewed_bytes_most = 0x1p28;

size_t lab_judge_next(size_t round) {
    return round + 1 + (size_t)(lab_entropy() % (2 * (round + 1)));
}

bool lab_judge_renew(lab_station *s, bool back) {
    lab_message why;
    if (lab_spec_bytes(s->owner->spec) > renewed_bytes_most)
        return true;
    lab_tensors_renew(s->tensors, back ? s->seed : lab_entropy());
    return lab_mirror_upload_inputs(&s->mirror, &why) || lab_station_failed(s, why.text);
}

bool lab_judge_poison(lab_station *s) {
    lab_message why;
    lab_tensors_poison_outputs(s->tensors);
    lab_workspace_poison(&s->workspace);
    return lab_mirror_upload_outputs(&s->mirror, &why) || lab_station_failed(s, why.text);
}

void lab_judge_look(lab_judge_glance *glance, const lab_station *s) {
    glance->seed = lab_entropy();
    glance->hash = lab_tensors_glance(s->tensors, glance->seed);
}

/* The oracle, the guards and the inputs; true where all is well. */
static bool judge(lab_station *s) {
    lab_bench_case *c = s->owner;
    const lab_verify_options options = {.seed = lab_entropy(), .max_work = TIMED_ANSWER_WORK};
    lab_verify_result timed = c->verify;
    lab_message why = {.text = ""};
    timed.message[0] = '\0';
    lab_verify_outputs(&timed, s->tensors, &options);
    if (timed.outcome != LAB_PASS)
        return lab_station_stop(s, LAB_FAIL, timed.message);
    return (lab_tensors_check(s->tensors, &why) && lab_workspace_check(&s->workspace, &why)) ||
           lab_station_stop(s, LAB_FAIL, why.text);
}

void lab_judge_answer(lab_station *s, const lab_judge_glance *glance, bool first, bool last) {
    lab_message why;
    if (!lab_mirror_download_outputs(&s->mirror, &why) ||
        !lab_mirror_download_inputs(&s->mirror, &why)) {
        lab_station_failed(s, why.text);
        return;
    }
    const uint64_t settled = lab_tensors_hash_outputs(s->tensors);
    if (!judge(s))
        return;
    /* What is right now but was not then came too late. */
    const bool in_place = !s->mirror.gpu;
    if (lab_tensors_hash_outputs(s->tensors) != settled ||
        (in_place && lab_tensors_glance(s->tensors, glance->seed) != glance->hash))
        lab_station_stop(s, LAB_FAIL, lab_late_answer);
    else if (first)
        s->answer = settled;
    else if (last && settled != s->answer)
        lab_station_stop(s, LAB_FAIL, "the first and the last timed run differ");
}
