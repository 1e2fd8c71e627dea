/* main.c: attest, the program: finds the verb and passes it the options. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attest.h"
#include "cli/commands.h"
#include "cli/completions.h"
#include "cli/help.h"
#include "cli/supervisor.h"
#include "cli/virtual_device.h"
#include "lab/base/atomic_file.h"
#include "lab/base/machine.h"
#include "lab/base/markup.h"
#include "lab/base/suggest.h"

/* `topic`: it was an argument of help. */
static int unknown_verb(const char *name, bool topic) {
    lab_suggestion best = {0};
    for (size_t i = 0; i < cli_verb_count; i++)
        lab_suggest(&best, name, cli_verb_table[i].name);
    lab_suggest(&best, name, topic ? "shapes" : "help");
    lab_suggest(&best, name, "completions");
    char shown[64];
    fprintf(stderr, "attest: there is no verb '%s'",
            lab_plain_text(shown, sizeof shown, name, 40));
    if (best.word)
        fprintf(stderr, "; did you mean '%s'?\n", best.word);
    else
        fputs("; see 'attest help'\n", stderr);
    return CLI_USAGE;
}

static const char completions_usage[] =
    "attest completions: bash, zsh or fish, as in: source <(attest completions bash)\n";

static int help(int argc, char **argv) {
    if (argc == 0 || strcmp(argv[0], "help") == 0) {
        cli_help_program(stdout);
        return CLI_HOLDS;
    }
    if (strcmp(argv[0], "shapes") == 0) {
        cli_help_shapes(stdout);
        return CLI_HOLDS;
    }
    if (strcmp(argv[0], "completions") == 0) {
        fputs(completions_usage, stdout);
        return CLI_HOLDS;
    }
    const cli_verb *verb = cli_find_verb(argv[0]);
    if (!verb)
        return unknown_verb(argv[0], true);
    cli_help_verb(stdout, verb);
    return CLI_HOLDS;
}

static int completions(const char *shell) {
    if (cli_completions(stdout, shell))
        return CLI_HOLDS;
    fputs(completions_usage, stderr);
    return CLI_USAGE;
}

static int run_verb(const char *program, const cli_verb *verb, int argc, char **argv) {
    cli_options options;
    int result = CLI_USAGE;
    if (cli_options_read(&options, program, verb->name, verb->bit, argc, argv)) {
        if (options.help) {
            cli_help_verb(stdout, verb);
            result = CLI_HOLDS;
        } else if (options.virtual_gpu && !cli_virtual_open(&options)) {
            result = CLI_NOT_POSSIBLE;
        } else {
            result = (int)verb->command(&options);
        }
    }
    cli_options_free(&options);
    return result;
}

static int dispatch(int argc, char **argv) {
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help(argc - 2, argv + 2);
    if (strcmp(name, "--version") == 0) {
        printf("attest %s (%s)\n", att_version(), lab_compiler());
        return CLI_HOLDS;
    }
    if (strcmp(name, "completions") == 0)
        return completions(argc == 3 ? argv[2] : NULL);
    const cli_verb *verb = cli_find_verb(name);
    return verb ? run_verb(argv[0], verb, argc - 2, argv + 2) : unknown_verb(name, false);
}

/* Remove temporary files, then die from the signal as if it had not been caught. */
static void die_clean(int number) {
    lab_atomic_remove_all();
    raise(number);
}

/* SIGBUS comes from reading a mapped file that was truncated, or from a failing disk. */
static void input_vanished(int number) {
    (void)number;
    static const char text[] =
        "attest: an input file was cut short, or could not be read, during "
        "the run\n";
    lab_atomic_remove_all();
    const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    _exit(CLI_NOT_POSSIBLE);
}

static void catch_signals(void) {
    static const struct {
        int number;
        void (*handler)(int);
    } caught[] = {{SIGINT, die_clean},
                  {SIGTERM, die_clean},
                  {SIGHUP, die_clean},
                  {SIGPIPE, die_clean},
                  {SIGBUS, input_vanished}};
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        struct sigaction action = {.sa_handler = caught[i].handler,
                                   .sa_flags = (int)SA_RESETHAND};
        struct sigaction before;
        sigemptyset(&action.sa_mask);
        if (sigaction(caught[i].number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(caught[i].number, &action, NULL);
    }
}

static int program(int argc, char **argv) {
    catch_signals();
    const int result = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("attest: stdout");
        return result == CLI_HOLDS ? CLI_NOT_POSSIBLE : result;
    }
    return result;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        cli_help_usage(stderr);
        return CLI_USAGE;
    }
    return cli_wants_supervisor(argc, argv) ? cli_supervise(argc, argv, program)
                                            : program(argc, argv);
}
