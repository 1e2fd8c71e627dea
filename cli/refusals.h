/* refusals.h: the problems that may be refused: what a caller expects of a suite, so that a refusal that nobody expects is seen. */
#ifndef CLI_REFUSALS_H
#define CLI_REFUSALS_H

#include "cli/session.h"
#include "lab/verify/verify.h"

/* Patterns of problems, one per line of a file; * and ? mean what they do in a shell, # begins a comment. */
typedef struct cli_refusals {
    bool given;
    char (*patterns)[LAB_SPEC_MAX];
    size_t count;
} cli_refusals;

/* Read what --refusals names, if it was given. */
bool cli_refusals_read(cli_refusals *refusals, const cli_options *o);
void cli_refusals_free(cli_refusals *refusals);

/* Is the outcome what the list says: refused where it is listed, served where it is not? If not, says so. True where no list was given. */
bool cli_refusals_expect(const cli_refusals *refusals, const cli_session *session,
                         const lab_spec *spec, const lab_verify_result *result);

#endif
