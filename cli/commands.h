/* commands.h: the verbs. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/options.h"

cli_exit cli_info(const cli_options *o);
cli_exit cli_run(const cli_options *o);
cli_exit cli_explain(const cli_options *o);
cli_exit cli_verify(const cli_options *o);
cli_exit cli_bench(const cli_options *o);
cli_exit cli_compare(const cli_options *o);
cli_exit cli_demo(const cli_options *o);
cli_exit cli_plan(const cli_options *o);
cli_exit cli_doctor(const cli_options *o);
cli_exit cli_audit(const cli_options *o);
cli_exit cli_certify(const cli_options *o);
cli_exit cli_profile(const cli_options *o);
cli_exit cli_ablate(const cli_options *o);
cli_exit cli_tune(const cli_options *o);
cli_exit cli_report(const cli_options *o);
cli_exit cli_judge(const cli_options *o);
cli_exit cli_suites(const cli_options *o);

/* A verb and its help. */
typedef struct cli_verb {
    const char *name;
    unsigned bit;
    cli_exit (*command)(const cli_options *o);
    const char *arguments, *summary;
    const char *detail;
    const char *const *examples; /* ends with NULL */
} cli_verb;

extern const cli_verb cli_verb_table[];
extern const size_t cli_verb_count;

/* The verb of that name, or NULL. */
const cli_verb *cli_find_verb(const char *name);

#endif
