/* subject.h: what the harness verifies and times, behind a few functions: attest itself, or a peer.
 *
 * A subject is prepared for one problem; what is prepared runs as often as wanted. The harness knows
 * nothing else of either, so that all of them go through the same checks and the same clock. */
#ifndef LAB_SUBJECT_H
#define LAB_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "attest.h"
#include "lab/base/message.h"
#include "lab/problem/lab_operation.h"

typedef struct lab_subject lab_subject;

/* What a subject can do. Statuses are of the library; where one is not ATT_OK, `why` has the reason. */
typedef struct lab_subject_ops {
    /* Get ready for the problem; *state is what the others are given. An error is a refusal, but
     * ATT_E_SYSTEM: the subject broke its word, which fails the problem. */
    att_status (*prepare)(const lab_subject *subject, const lab_spec *spec, void **state,
                          lab_message *why);
    /* Bytes of workspace of a run. */
    size_t (*workspace)(const void *state);
    /* The id that the launch record of a run must name; NULL where the subject keeps no record. */
    const char *(*kernel)(const void *state);
    /* Compute, or put the work on the stream, as att_plan_run() does. */
    att_status (*run)(void *state, const lab_operation *operation, const lab_args *args,
                      void *workspace, void *stream, lab_message *why);
    void (*destroy)(void *state);
    /* The same state, run the shortest way that the subject has (att_peer.direct), where run() may do more;
     * NULL: run() is that. Only run() of these is called. */
    const struct lab_subject_ops *direct;
} lab_subject_ops;

struct lab_subject {
    const lab_subject_ops *ops;
    const char *name,
        *version;     /* "attest" and the library's version, or the peer's; they outlive it */
    uint32_t copies;  /* copies and fills that a run on a GPU may make */
    att_context *ctx; /* the device that it computes on, where its tensors lie */
    void *self;       /* its own, NULL where it needs nothing */
};

/* The library on this context, which must outlive the subject. */
lab_subject lab_subject_attest(att_context *ctx);

/* A subject made ready for one problem. */
typedef struct lab_prepared {
    const lab_subject_ops *ops; /* NULL: nothing is prepared */
    void *state;
    const char *name; /* the subject's */
    const lab_operation *operation;
} lab_prepared;

/* What is called keeps the rules of floating-point arithmetic as they are (lab/base/float_state.h): they are put back
 * after every call here, and a subject that changed them in one that can fail has failed. */
att_status lab_subject_prepare(lab_prepared *out, const lab_subject *subject,
                               const lab_spec *spec, lab_message *why);

/* A plan of the caller's as if it had been prepared; it stays the caller's, and is not to be destroyed
 * through this. */
lab_prepared lab_prepared_plan(const att_plan *plan, const lab_operation *operation);

size_t lab_prepared_workspace(const lab_prepared *prepared);
const char *lab_prepared_kernel(const lab_prepared *prepared);
att_status lab_prepared_run(const lab_prepared *prepared, const lab_args *args, void *workspace,
                            void *stream, lab_message *why);
/* The direct call of what is prepared; false where there is none. Not to be destroyed. */
bool lab_prepared_direct(lab_prepared *out, const lab_prepared *prepared);
void lab_prepared_destroy(lab_prepared *prepared);

/* Whether the subject is the library itself. */
bool lab_subject_is_attest(const lab_subject *subject);

#endif
