/* bench_processes.c: starts this program again and reads the document that it prints. */
#include "cli/bench_processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/interrupt.h"
#include "lab/base/json_load.h"
#include "lab/base/spawn.h"
#include "lab/measure/bench_json.h"

/* attest VERB --as-process N, then the arguments of this process. */
static char **make_arguments(const cli_options *o, char *number) {
    enum { BEFORE = 4 };
    static char program[] = "attest", option[] = "--as-process";
    static char verb[16];
    char **arguments = calloc((size_t)o->argument_count + BEFORE + 1, sizeof *arguments);
    if (!arguments)
        return NULL;
    snprintf(verb, sizeof verb, "%s", o->verb);
    arguments[0] = program;
    arguments[1] = verb;
    arguments[2] = option;
    arguments[3] = number;
    for (int i = 0; i < o->argument_count; i++)
        arguments[BEFORE + i] = o->arguments[i];
    return arguments;
}

/* The document of process `number`; NULL, with an error message, if there is none. */
static json_t *run_process(const cli_options *o, unsigned number) {
    char text[16];
    snprintf(text, sizeof text, "%u", number);
    char **arguments = make_arguments(o, text);
    lab_child child;
    lab_message why;
    if (!arguments || !lab_spawn_self(&child, (const char *const *)arguments, &why)) {
        cli_complain(o, "process %u: %s", number, arguments ? why.text : "no memory");
        free(arguments);
        return NULL;
    }
    free(arguments);
    char name[32];
    snprintf(name, sizeof name, "process %u", number);
    json_t *document = lab_json_parse(child.out, strlen(child.out), name, &why);
    if (!document && !lab_interrupted())
        cli_complain(o, "%s gave no document: %s (exit status %d)", name, why.text,
                     child.status);
    lab_child_free(&child);
    return document;
}

static cli_exit merge(const cli_session *session, lab_bench_case *cases, size_t count,
                      unsigned number) {
    const cli_options *o = session->options;
    json_t *document = run_process(o, number);
    if (!document)
        return CLI_NOT_POSSIBLE;
    lab_results results;
    lab_message why;
    char name[32];
    snprintf(name, sizeof name, "process %u", number);
    bool ok = lab_results_of(&results, document, name, &why);
    json_decref(document);
    if (ok && results.count != count)
        ok = lab_fail(&why, "%s: %zu results, expected %zu", name, results.count, count);
    for (size_t i = 0; ok && i < count; i++)
        ok = lab_bench_merge(&cases[i], &results.results[i], number, o->seed, &why);
    lab_results_free(&results);
    if (!ok)
        cli_complain(o, "%s", why.text);
    return ok ? CLI_HOLDS : CLI_NOT_POSSIBLE;
}

cli_exit cli_bench_further_processes(const cli_session *session, lab_bench_case *cases,
                                     size_t count, int64_t *done) {
    cli_exit result = CLI_HOLDS;
    *done = 1;
    while (result == CLI_HOLDS && *done < session->options->processes && !lab_interrupted()) {
        result = merge(session, cases, count, (unsigned)*done);
        *done += result == CLI_HOLDS;
    }
    /* A terminal interrupts the other process too: the samples merged before stay. */
    return lab_interrupted() ? CLI_HOLDS : result;
}
