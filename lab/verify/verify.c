/* verify.c: the protocol of a verified run: poison, run, run again, compare, check every
 * guard. */
#include "lab/verify/verify.h"

#include <stdio.h>
#include <string.h>

#include "lab/base/clock.h"
#include "lab/subject/device_timer.h"
#include "lab/tensors/device_memory.h"

typedef struct trial {
    const lab_subject *subject;
    lab_prepared prepared;
    lab_tensors *tensors;
    lab_buffer workspace;
    lab_mirror mirror;
    lab_verify_result *result;
    uint64_t answer; /* hash of the outputs, taken as soon as a run had ended */
} trial;

const char lab_late_answer[] = "the answer was still being written when the run had returned";

static bool conclude(trial *t, lab_outcome outcome, att_status status, const char *text) {
    t->result->outcome = outcome;
    t->result->status = status;
    snprintf(t->result->message, sizeof t->result->message, "%s", text);
    return false;
}

lab_outcome lab_outcome_of(att_status status) {
    return status == ATT_OK ? LAB_PASS : status == ATT_E_UNSUPPORTED ? LAB_REFUSED : LAB_FAIL;
}

static bool prepare(trial *t, const lab_spec *spec, uint64_t seed) {
    lab_message why;
    const att_status status = lab_subject_prepare(&t->prepared, t->subject, spec, &why);
    if (status != ATT_OK)
        return conclude(t, lab_outcome_of(status), status, why.text);
    if (!lab_tensors_create(&t->tensors, spec, seed, &why) ||
        !lab_workspace_create(&t->workspace, lab_prepared_workspace(&t->prepared), &why))
        return conclude(t, LAB_REFUSED, ATT_OK, why.text);
    return lab_mirror_tensors(&t->mirror, t->subject->ctx, t->tensors, &t->workspace, &why) ||
           conclude(t, LAB_FAIL, att_last_error()->status, why.text);
}

/* The launch record names the kernel that ran, which must match the kernel id in the plan; a
 * subject without a record is known by its name. */
static bool check_record(trial *t) {
    lab_verify_result *r = t->result;
    const char *meant = lab_prepared_kernel(&t->prepared);
    const char *ran = r->launch.kernel ? r->launch.kernel : "";
    if (!meant)
        return true;
    snprintf(r->kernel, sizeof r->kernel, "%s", ran);
    if (strcmp(r->kernel, meant) == 0 ||
        (r->kernel[0] == '\0' && t->tensors->spec.operation->is_void(&t->tensors->spec)))
        return true;
    char text[192];
    snprintf(text, sizeof text, "the plan named %s, but %s ran", meant,
             r->kernel[0] ? r->kernel : "no kernel");
    return conclude(t, LAB_FAIL, ATT_OK, text);
}

/* Run on poisoned outputs and workspace. */
static bool run_once(trial *t) {
    lab_verify_result *r = t->result;
    lab_message why;
    lab_tensors_poison_outputs(t->tensors);
    lab_workspace_poison(&t->workspace);
    if (!lab_mirror_upload_outputs(&t->mirror, &why))
        return conclude(t, LAB_FAIL, att_last_error()->status, why.text);

    r->launch = (att_launch){0};
    t->tensors->spec.operation->record(&t->mirror.any, &r->launch);
    const uint64_t start = lab_clock_ns();
    const att_status status = lab_prepared_run(&t->prepared, &t->mirror.any,
                                               t->mirror.workspace, t->mirror.stream, &why);
    if (status != ATT_OK)
        return conclude(t, LAB_FAIL, status, why.text);
    if (!lab_mirror_wait(&t->mirror, &why))
        return conclude(t, LAB_FAIL, att_last_error()->status, why.text);
    const double seconds = (double)(lab_clock_ns() - start) * 1e-9;
    if (!lab_mirror_download_outputs(&t->mirror, &why))
        return conclude(t, LAB_FAIL, att_last_error()->status, why.text);

    if (r->run_seconds == 0.0 || seconds < r->run_seconds)
        r->run_seconds = seconds;
    return check_record(t);
}

/* Poison, replay, wait, download. */
static bool replay(trial *t, lab_device_timer *timer, lab_message *why) {
    lab_tensors_poison_outputs(t->tensors);
    lab_workspace_poison(&t->workspace);
    return lab_mirror_upload_outputs(&t->mirror, why) && lab_device_timer_lead(timer, why) &&
           lab_mirror_wait(&t->mirror, why) && lab_mirror_download_outputs(&t->mirror, why);
}

/* On a GPU a run is also captured into a graph and replayed: work outside its stream is not in
 * the graph. */
static bool run_from_graph(trial *t) {
    lab_device_timer timer;
    lab_message why;
    if (!t->mirror.gpu)
        return true;
    bool ok = lab_device_timer_open(&timer, &t->mirror, &t->prepared, 1, &why);
    if (ok) {
        ok = replay(t, &timer, &why);
        lab_device_timer_close(&timer);
    }
    if (!ok)
        return conclude(t, LAB_FAIL, att_last_error()->status, why.text);
    return lab_tensors_hash_outputs(t->tensors) == t->answer ||
           conclude(t, LAB_FAIL, ATT_OK,
                    "replayed from a CUDA graph it gave other bits: not all of it was on its "
                    "stream");
}

static bool run_all(trial *t, int repeats) {
    for (int n = 0; n < repeats; n++) {
        if (!run_once(t))
            return false;
        const uint64_t hash = lab_tensors_hash_outputs(t->tensors);
        if (n == 0)
            t->answer = hash;
        else if (hash != t->answer)
            return conclude(t, LAB_FAIL, ATT_OK, "a second run gave other bits");
    }
    if (!run_from_graph(t))
        return false;
    lab_message why;
    if (!lab_mirror_download_inputs(&t->mirror, &why))
        return conclude(t, LAB_FAIL, att_last_error()->status, why.text);
    if (!lab_tensors_check(t->tensors, &why) || !lab_workspace_check(&t->workspace, &why))
        return conclude(t, LAB_FAIL, ATT_OK, why.text);
    return true;
}

/* Judge what the last run left with the oracle; it must have been there when the run ended.
 * Kept answers are not used for plug-ins. */
static void judge(trial *t, const lab_verify_options *options) {
    lab_verify_options own = options ? *options : (lab_verify_options){.seed = 0};
    if (!lab_subject_is_attest(t->subject))
        own.store = NULL;
    lab_verify_outputs(t->result, t->tensors, &own);
    if (t->result->outcome == LAB_PASS && lab_tensors_hash_outputs(t->tensors) != t->answer)
        conclude(t, LAB_FAIL, ATT_OK, lab_late_answer);
}

void lab_verify_subject(lab_verify_result *result, const lab_subject *subject,
                        const lab_spec *spec, const lab_verify_options *options) {
    *result = (lab_verify_result){.outcome = LAB_PASS};
    lab_verify_list_outputs(result, spec);
    if (!lab_subject_is_attest(subject))
        snprintf(result->kernel, sizeof result->kernel, "%s", subject->name);
    trial t = {.subject = subject, .result = result};
    const int repeats = options && options->repeats ? options->repeats : 2;
    if (prepare(&t, spec, options ? options->seed : 0) && run_all(&t, repeats))
        judge(&t, options);
    lab_prepared_destroy(
        &t.prepared); /* first: it may still have work in flight that it should not have */
    lab_mirror_close(&t.mirror);
    lab_workspace_destroy(&t.workspace);
    lab_tensors_destroy(t.tensors);
}

void lab_verify_spec(lab_verify_result *result, att_context *ctx, const lab_spec *spec,
                     const lab_verify_options *options) {
    const lab_subject subject = lab_subject_attest(ctx);
    lab_verify_subject(result, &subject, spec, options);
}
