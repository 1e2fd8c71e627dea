/* bench_processes.c: this program started again, its document read from a pipe. */
#include "cli/bench_processes.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab/base/interrupt.h"
#include "lab/measure/bench_json.h"

/* attest VERB --as-process N, then the arguments that this process was given. */
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

/* Start it with its stdout in the pipe. 0, or an error number. */
static int start(pid_t *child, char **arguments, const int ends[2]) {
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code)
        return code;
    code = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    if (!code)
        code = posix_spawn_file_actions_addclose(&actions, ends[0]);
    if (!code)
        code = posix_spawn_file_actions_addclose(&actions, ends[1]);
    if (!code)
        code = posix_spawn(child, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* The document that process `number` writes; NULL, with a complaint, where there is none. */
static json_t *run_process(const cli_options *o, unsigned number) {
    int ends[2], status = 0;
    pid_t child = 0;
    char text[16];
    snprintf(text, sizeof text, "%u", number);
    char **arguments = make_arguments(o, text);
    if (!arguments || pipe(ends) != 0) {
        free(arguments);
        cli_complain(o, "process %u cannot be started: %s", number, strerror(errno));
        return NULL;
    }
    const int code = start(&child, arguments, ends);
    free(arguments);
    close(ends[1]);
    json_t *document = NULL;
    json_error_t error = {.text = ""};
    if (code == 0) {
        document = json_loadfd(ends[0], JSON_REJECT_DUPLICATES, &error);
        waitpid(child, &status, 0);
    }
    close(ends[0]);
    if (code)
        cli_complain(o, "process %u cannot be started: %s", number, strerror(code));
    else if (!document && !lab_interrupted())
        cli_complain(o, "process %u gave no document: %s (exit status %d)", number, error.text,
                     WIFEXITED(status) ? WEXITSTATUS(status) : -1);
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
        ok = lab_fail(&why, "%s: %zu results where %zu are wanted", name, results.count, count);
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
    /* A terminal interrupts the further process too: what was merged before stands. */
    return lab_interrupted() ? CLI_HOLDS : result;
}
