/* verify.c: the protocol of a verified run: poison, run, run again, compare, check every guard. */
#include "lab/verify.h"

#include <stdio.h>
#include <string.h>

#include "lab/clock.h"
#include "lab/device_memory.h"

typedef struct trial {
    att_plan *plan;
    lab_tensors *tensors;
    lab_buffer workspace;
    lab_mirror mirror;
    lab_verify_result *result;
} trial;

static bool conclude(trial *t, lab_outcome outcome, att_status status, const char *text) {
    t->result->outcome = outcome;
    t->result->status = status;
    snprintf(t->result->message, sizeof t->result->message, "%s", text);
    return false;
}

static bool prepare(trial *t, att_context *ctx, const lab_spec *spec, uint64_t seed) {
    lab_message why;
    if (att_plan_create(&t->plan, ctx, &spec->problem) != ATT_OK)
        return conclude(t, LAB_REFUSED, att_last_error()->status, att_last_error()->text);
    if (!lab_tensors_create(&t->tensors, spec, seed, &why) ||
        !lab_workspace_create(&t->workspace, att_plan_workspace(t->plan), &why) ||
        !lab_mirror_tensors(&t->mirror, ctx, t->tensors, &t->workspace, &why))
        return conclude(t, LAB_REFUSED, ATT_OK, why.text);
    return true;
}

/* Whether the problem has no row to compute: then no kernel need be launched. */
static bool nothing_to_do(const att_problem *p) {
    return p->batch == 0 || p->seq_q == 0 || ((p->features & ATT_CU_SEQLENS_Q) && !p->total_q);
}

/* Run on poisoned outputs and workspace; the kernel must name itself as the plan did. */
static bool run_once(trial *t) {
    lab_verify_result *r = t->result;
    lab_message why;
    lab_tensors_poison_outputs(t->tensors);
    lab_workspace_poison(&t->workspace);
    if (!lab_mirror_upload_outputs(&t->mirror, &why))
        return conclude(t, LAB_FAIL, att_last_error()->status, why.text);

    r->launch = (att_launch){0};
    t->mirror.args.launch = &r->launch;
    const uint64_t start = lab_clock_ns();
    const att_status status =
        att_plan_run(t->plan, &t->mirror.args, t->mirror.workspace, t->mirror.stream);
    if (status != ATT_OK)
        return conclude(t, LAB_FAIL, status, att_last_error()->text);
    if (!lab_mirror_wait(&t->mirror, &why))
        return conclude(t, LAB_FAIL, att_last_error()->status, why.text);
    const double seconds = (double)(lab_clock_ns() - start) * 1e-9;
    if (!lab_mirror_download_outputs(&t->mirror, &why))
        return conclude(t, LAB_FAIL, att_last_error()->status, why.text);

    if (r->run_seconds == 0.0 || seconds < r->run_seconds)
        r->run_seconds = seconds;
    snprintf(r->kernel, sizeof r->kernel, "%s", r->launch.kernel ? r->launch.kernel : "");
    if (strcmp(r->kernel, att_plan_kernel(t->plan)) != 0 &&
        !(r->kernel[0] == '\0' && nothing_to_do(&t->tensors->spec.problem))) {
        char text[192];
        snprintf(text, sizeof text, "the plan named %s, but %s ran", att_plan_kernel(t->plan),
                 r->kernel[0] ? r->kernel : "no kernel");
        return conclude(t, LAB_FAIL, ATT_OK, text);
    }
    return true;
}

static bool run_all(trial *t, int repeats) {
    uint64_t first = 0;
    for (int n = 0; n < repeats; n++) {
        if (!run_once(t))
            return false;
        const uint64_t hash = lab_tensors_hash_outputs(t->tensors);
        if (n == 0)
            first = hash;
        else if (hash != first)
            return conclude(t, LAB_FAIL, ATT_OK, "a second run gave other bits");
    }
    lab_message why;
    if (!lab_mirror_download_inputs(&t->mirror, &why))
        return conclude(t, LAB_FAIL, att_last_error()->status, why.text);
    if (!lab_tensors_check(t->tensors, &why) || !lab_workspace_check(&t->workspace, &why))
        return conclude(t, LAB_FAIL, ATT_OK, why.text);
    return true;
}

void lab_verify_spec(lab_verify_result *result, att_context *ctx, const lab_spec *spec,
                     const lab_verify_options *options) {
    *result = (lab_verify_result){.outcome = LAB_PASS};
    trial t = {.result = result};
    const int repeats = options && options->repeats ? options->repeats : 2;
    if (prepare(&t, ctx, spec, options ? options->seed : 0) && run_all(&t, repeats))
        lab_verify_outputs(result, t.tensors, options);
    lab_mirror_close(&t.mirror);
    lab_workspace_destroy(&t.workspace);
    lab_tensors_destroy(t.tensors);
    att_plan_destroy(t.plan);
}
