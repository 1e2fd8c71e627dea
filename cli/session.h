/* session.h: what every verb begins with: its output streams, its contexts and its problems. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <stdbool.h>
#include <stdio.h>

#include "attest.h"
#include "cli/options.h"
#include "cli/sink.h"
#include "lab/base/json.h"
#include "lab/problem/spec.h"
#include "lab/subject/peer.h"
#include "lab/subject/subject.h"

typedef struct cli_session {
    const cli_options *options;
    FILE *text; /* for people: stdout, or stderr if stdout carries a document */
    cli_sink json, csv;
    att_context *ctx[CLI_ISA_MAX * CLI_KERNEL_MAX]; /* one per --isa and --kernel */
    size_t ctx_count;
    lab_peer peers[CLI_PEER_MAX]; /* one per --peer */
    size_t peer_count;
    /* The subjects to verify and time: attest on every context, then every peer on the
     * first. */
    lab_subject subjects[CLI_ISA_MAX * CLI_KERNEL_MAX + CLI_PEER_MAX];
    size_t subject_count;
    lab_spec *specs;
    size_t spec_count;
} cli_session;

/* Start with nothing open. cli_session_close() may follow at any time. */
void cli_session_start(cli_session *session, const cli_options *o);

/* Open the documents that the command line asks for, for verbs without a context. */
cli_exit cli_session_open_documents(cli_session *session);

/* Open the documents, a context for every instruction set and kernel, and the peers. Prints
 * errors. */
cli_exit cli_session_open(cli_session *session);

/* For verbs that work on problems: start, collect the problems that the command line names
 * (shapes, suites, flags applied to either; flags alone make one problem; nothing at all means
 * `default_suite`, or an error if that is NULL), and open. */
cli_exit cli_session_begin(cli_session *session, const cli_options *o,
                           const char *default_suite);

/* cli_session_begin() for GPU-only work: elsewhere it is not possible, whatever kernel is
 * named. */
cli_exit cli_session_begin_gpu(cli_session *session, const cli_options *o,
                               const char *default_suite);

/* The same without the contexts, for verbs that inspect problems and run none. */
cli_exit cli_session_begin_problems(cli_session *session, const cli_options *o,
                                    const char *default_suite);

/* Write `document` (consumed) if --json asked for one; returns `outcome`, or the error. */
cli_exit cli_session_finish(cli_session *session, json_t *document, cli_exit outcome);

void cli_session_close(cli_session *session);

/* Apply the shape flags to a spec. Errors name the flag. */
bool cli_apply_modifiers(const cli_options *o, lab_spec *spec);

/* Print the library's last error; returns the exit code for its status. */
cli_exit cli_library_failed(const cli_options *o);
cli_exit cli_exit_of_status(att_status status);

/* The flags that reproduce this run of the subject on a similar machine: "--isa avx2 --threads
 * 2 --seed 7", "--device cuda:0 --seed 7 --peer ./mine.so". */
void cli_format_flags(const cli_session *session, size_t subject_index, char *buf, size_t n);

#endif
