/* refusals.h: the problems that may be refused: a caller lists them for a suite, so that an
 * unexpected refusal is noticed. */
#ifndef CLI_REFUSALS_H
#define CLI_REFUSALS_H

#include "cli/session.h"
#include "lab/verify/verify.h"

/* Patterns of problems, one per line of a file; * and ? as in a shell, # begins a comment. */
typedef struct cli_refusals {
    bool given;
    char (*patterns)[LAB_SPEC_MAX];
    size_t count;
} cli_refusals;

/* Read the file of --refusals, if given. */
bool cli_refusals_read(cli_refusals *refusals, const cli_options *o);
void cli_refusals_free(cli_refusals *refusals);

/* Whether the outcome matches the list: refused if listed, otherwise not. If not, prints so.
 * True if no list was given. */
bool cli_refusals_expect(const cli_refusals *refusals, const cli_session *session,
                         const lab_spec *spec, const lab_verify_result *result);

#endif
