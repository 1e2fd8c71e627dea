/* subject.h: what the harness verifies and times, behind a few functions: attest itself, or a
 * peer.
 *
 * A subject is prepared for one problem and can then run any number of times. The harness knows
 * nothing else about it, so that all subjects go through the same checks and the same clock. */
#ifndef LAB_SUBJECT_H
#define LAB_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "attest.h"
#include "lab/base/message.h"
#include "lab/problem/lab_operation.h"

typedef struct lab_subject lab_subject;

/* The functions of a subject. Statuses are the library's; unless ATT_OK, `why` has the
 * reason. */
typedef struct lab_subject_ops {
    /* Prepare for the problem; *state is passed to the other functions. An error is a refusal,
     * except ATT_E_SYSTEM: the subject broke its contract, which fails the problem. */
    att_status (*prepare)(const lab_subject *subject, const lab_spec *spec, void **state,
                          lab_message *why);
    /* Bytes of workspace per run. */
    size_t (*workspace)(const void *state);
    /* The kernel id that the launch record of a run must name; NULL if the subject keeps no
     * record. */
    const char *(*kernel)(const void *state);
    /* Compute, or put the work on the stream, as att_plan_run() does. */
    att_status (*run)(void *state, const lab_operation *operation, const lab_args *args,
                      void *workspace, void *stream, lab_message *why);
    void (*destroy)(void *state);
    /* The same state, run in the shortest way that the subject has (att_peer.direct), if run()
     * may do more; NULL: run() is the shortest. Only run() of these ops is called. */
    const struct lab_subject_ops *direct;
} lab_subject_ops;

struct lab_subject {
    const lab_subject_ops *ops;
    const char *name,
        *version;     /* "attest" and the library's version, or the peer's; must outlive the
                       * subject */
    uint32_t copies;  /* copies and fills that a run on a GPU may make */
    att_context *ctx; /* the device that it computes on and that holds its tensors */
    void *self;       /* its own data; NULL if it needs none */
};

/* The library on this context, which must outlive the subject. */
lab_subject lab_subject_attest(att_context *ctx);

/* A subject prepared for one problem. */
typedef struct lab_prepared {
    const lab_subject_ops *ops; /* NULL: nothing is prepared */
    void *state;
    const char *name; /* the subject's */
    const lab_operation *operation;
} lab_prepared;

/* Calls keep the floating-point rules unchanged (lab/base/float_state.h): they are restored
 * after every call here. If a function that can fail changed them, the subject has failed. */
att_status lab_subject_prepare(lab_prepared *out, const lab_subject *subject,
                               const lab_spec *spec, lab_message *why);

/* Wrap a plan of the caller as a prepared subject. The caller keeps the plan and must not
 * destroy it through this. */
lab_prepared lab_prepared_plan(const att_plan *plan, const lab_operation *operation);

size_t lab_prepared_workspace(const lab_prepared *prepared);
const char *lab_prepared_kernel(const lab_prepared *prepared);
att_status lab_prepared_run(const lab_prepared *prepared, const lab_args *args, void *workspace,
                            void *stream, lab_message *why);
/* The direct call of the prepared subject; false if there is none. Must not be destroyed. */
bool lab_prepared_direct(lab_prepared *out, const lab_prepared *prepared);
void lab_prepared_destroy(lab_prepared *prepared);

/* Whether the subject is the library itself. */
bool lab_subject_is_attest(const lab_subject *subject);

#endif
