/* verify.c: the protocol of a verified run: poison, run, run again, compare, check every guard. */
#include "lab/verify.h"

#include <stdio.h>
#include <string.h>

#include "lab/clock.h"

typedef struct trial {
    att_plan *plan;
    lab_tensors *tensors;
    lab_buffer workspace;
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
        !lab_workspace_create(&t->workspace, att_plan_workspace(t->plan), &why))
        return conclude(t, LAB_REFUSED, ATT_OK, why.text);
    return true;
}

/* Run on poisoned outputs and workspace; the kernel must name itself as the plan did. */
static bool run_once(trial *t) {
    att_launch launch = {0};
    t->tensors->args.launch = &launch;
    lab_tensors_poison_outputs(t->tensors);
    lab_workspace_poison(&t->workspace);

    const uint64_t start = lab_clock_ns();
    const att_status status = att_plan_run(t->plan, &t->tensors->args, t->workspace.data, NULL);
    const double seconds = (double)(lab_clock_ns() - start) * 1e-9;
    t->tensors->args.launch = NULL;

    lab_verify_result *r = t->result;
    if (status != ATT_OK)
        return conclude(t, LAB_FAIL, status, att_last_error()->text);
    if (r->run_seconds == 0.0 || seconds < r->run_seconds)
        r->run_seconds = seconds;
    snprintf(r->kernel, sizeof r->kernel, "%s", launch.kernel ? launch.kernel : "");
    if (strcmp(r->kernel, att_plan_kernel(t->plan)) != 0) {
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
    lab_workspace_destroy(&t.workspace);
    lab_tensors_destroy(t.tensors);
    att_plan_destroy(t.plan);
}
