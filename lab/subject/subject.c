/* subject.c: calls through a subject's functions, and attest as a subject. */
#include "lab/subject/subject.h"

#include <stdint.h>

#include "lab/base/float_state.h"

/* ----------------------------------------------------------------- any subject */

/* A subject that leaves the floating-point rules changed would move the bar that it is checked
 * against. */
static att_status keep_rules(lab_float_state kept, att_status status, const char *name,
                             const char *call, lab_message *why) {
    if (lab_float_restore(kept) || status != ATT_OK)
        return status;
    lab_fail(why,
             "%s: %s left other rules of floating-point arithmetic behind (rounding, "
             "subnormals or traps)",
             name, call);
    return ATT_E_SYSTEM;
}

att_status lab_subject_prepare(lab_prepared *out, const lab_subject *subject,
                               const lab_spec *spec, lab_message *why) {
    void *state = NULL;
    *out = (lab_prepared){.ops = NULL};
    const lab_float_state kept = lab_float_save();
    att_status status = subject->ops->prepare(subject, spec, &state, why);
    const bool prepared = status == ATT_OK;
    status = keep_rules(kept, status, subject->name, "prepare()", why);
    if (prepared)
        *out = (lab_prepared){subject->ops, state, subject->name, spec->operation};
    if (prepared && status != ATT_OK)
        lab_prepared_destroy(out);
    return status;
}

size_t lab_prepared_workspace(const lab_prepared *prepared) {
    const lab_float_state kept = lab_float_save();
    const size_t bytes = prepared->ops->workspace(prepared->state);
    lab_float_restore(kept);
    return bytes;
}

const char *lab_prepared_kernel(const lab_prepared *prepared) {
    return prepared->ops->kernel(prepared->state);
}

att_status lab_prepared_run(const lab_prepared *prepared, const lab_args *args, void *workspace,
                            void *stream, lab_message *why) {
    const lab_float_state kept = lab_float_save();
    const att_status status =
        prepared->ops->run(prepared->state, prepared->operation, args, workspace, stream, why);
    return keep_rules(kept, status, prepared->name, "run()", why);
}

bool lab_prepared_direct(lab_prepared *out, const lab_prepared *prepared) {
    *out = (lab_prepared){prepared->ops->direct, prepared->state, prepared->name,
                          prepared->operation};
    return out->ops != NULL;
}

void lab_prepared_destroy(lab_prepared *prepared) {
    const lab_float_state kept = lab_float_save();
    if (prepared->ops)
        prepared->ops->destroy(prepared->state);
    lab_float_restore(kept);
    *prepared = (lab_prepared){.ops = NULL};
}

/* ---------------------------------------------------------------------- attest */

/* The library's message for a status other than ATT_OK. */
static att_status tell(att_status status, lab_message *why) {
    if (status != ATT_OK)
        lab_fail(why, "%s", att_last_error()->text);
    return status;
}

static att_status plan_prepare(const lab_subject *subject, const lab_spec *spec, void **state,
                               lab_message *why) {
    att_plan *plan = NULL;
    const att_status status = spec->operation->plan(&plan, subject->ctx, spec);
    *state = plan;
    return tell(status, why);
}

static size_t plan_workspace(const void *state) {
    return att_plan_workspace(state);
}

static const char *plan_kernel(const void *state) {
    return att_plan_kernel(state);
}

static att_status plan_run(void *state, const lab_operation *operation, const lab_args *args,
                           void *workspace, void *stream, lab_message *why) {
    return tell(operation->run(state, args, workspace, stream), why);
}

static void plan_destroy(void *state) {
    att_plan_destroy(state);
}

static const lab_subject_ops plan_ops = {.prepare = plan_prepare,
                                         .workspace = plan_workspace,
                                         .kernel = plan_kernel,
                                         .run = plan_run,
                                         .destroy = plan_destroy};

lab_subject lab_subject_attest(att_context *ctx) {
    return (lab_subject){
        .ops = &plan_ops, .name = "attest", .version = att_version(), .ctx = ctx};
}

bool lab_subject_is_attest(const lab_subject *subject) {
    return subject->ops == &plan_ops;
}

lab_prepared lab_prepared_plan(const att_plan *plan, const lab_operation *operation) {
    return (lab_prepared){&plan_ops, (void *)(uintptr_t)plan, "attest", operation};
}
