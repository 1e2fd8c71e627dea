/* options.h: the command line of every verb, read by one parser from one table. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attest.h"
#include "lab/attention/array_files.h"
#include "lab/plan/plan_ranks.h"
#include "lab/problem/spec.h"

/* The exit codes of the program. */
typedef enum cli_exit {
    CLI_HOLDS = 0,
    CLI_CHECK_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NOT_POSSIBLE = 3,
    CLI_INTERRUPTED = 130 /* the shell's code for SIGINT; the measurements so far are kept */
} cli_exit;

/* The verbs as bits, to say which of them accept an option. */
enum {
    CLI_INFO = 1u << 0,
    CLI_RUN = 1u << 1,
    CLI_EXPLAIN = 1u << 2,
    CLI_VERIFY = 1u << 3,
    CLI_BENCH = 1u << 4,
    CLI_DEMO = 1u << 5,
    CLI_PLAN = 1u << 6,
    CLI_DOCTOR = 1u << 7,
    CLI_COMPARE = 1u << 8,
    CLI_AUDIT = 1u << 12,
    CLI_REPORT = 1u << 13,
    CLI_CERTIFY = 1u << 16,
    CLI_PROFILE = 1u << 17,
    CLI_ABLATE = 1u << 20,
    CLI_TUNE = 1u << 21,
    CLI_JUDGE = 1u << 22,
    CLI_SUITES = 1u << 23
};

enum { CLI_ISA_MAX = 8, CLI_KERNEL_MAX = 64, CLI_PEER_MAX = 16, CLI_RANKS_MAX = 16 };

/* A shape flag as given: passed to lab_spec_set() for every problem. */
typedef struct cli_modifier {
    const char *name, *value; /* the name that spec.h knows; value may be NULL */
    const char *flag;         /* the option's long name, e.g. "hkv" */
    bool of_shape;            /* describes a shape, which array files have themselves */
} cli_modifier;

typedef struct cli_options {
    const char *program; /* argv[0], for commands to copy */
    const char *verb;

    att_device device;
    int device_index;
    bool virtual_gpu;         /* the device is CUDA, but the driver is the virtual GPU */
    att_isa isa[CLI_ISA_MAX]; /* at least one; ATT_ISA_AUTO if none was given */
    size_t isa_count;
    const char *kernels[CLI_KERNEL_MAX]; /* ids, or prefixes with a *; none: all */
    size_t kernel_count;
    const char *peers[CLI_PEER_MAX]; /* plug-in files */
    size_t peer_count;
    bool allow_slow, allow_unattested;
    const char *rows; /* file of user rows; NULL: the library's default */
    int64_t threads;
    int64_t jobs;        /* problems verified at once; 0: as suits the device */
    int64_t part, parts; /* certify: part of the kernels, from 1; 0 of 0: all of them */
    uint64_t seed, rows_seed;
    bool seed_given, rows_seed_given;
    double peer_limit; /* limit in seconds for a call of a peer; 0: depends on the problem */
    const char *json, *csv;

    const char **shapes; /* positional arguments and --shape; the files of compare and report */
    size_t shape_count;
    const char **suites;
    size_t suite_count;
    cli_modifier *modifiers;
    size_t modifier_count;

    lab_array_paths files;
    int64_t repeats;
    const char *refusals; /* verify: a file of problems that may be refused; NULL: any */
    bool trace, help;

    const char
        *plan_device; /* a name of devices/ or a file, for plan also cuda or cuda:N; NULL: the
                       * device here */
    bool all;         /* info: kernels; plan: tiles */
    int ranks[CLI_RANKS_MAX]; /* plan: numbers of devices to split a sequence over */
    size_t rank_count;
    lab_link link; /* 0 bytes per second: not given */
    double whole;  /* seconds on one device; 0: from the model */

    const char *diff; /* profile: the first of two files */
    /* certify and info; folder also for profile */
    const char *folder, *timed, *sign, *evidence, *signers, *host_tests;
    bool check;

    double budget;              /* seconds of a search */
    int64_t population, trials; /* trials 0: as many as the time allows */
    const char *state, *tuned;  /* files: its record, and the rows that it writes */
    bool resume;
    bool list; /* of switches */

    int64_t min_samples, max_samples;
    double seconds;
    double precision;      /* as a fraction; so are the next two */
    double minimum_effect; /* 0: from the baseline */
    double inject;         /* 0: no deliberate slow-down */
    int timer;             /* lab_timer */
    bool cold;
    int64_t processes;
    int64_t as_process; /* 0: the process that the user started; otherwise one that it
                         * started */
    const char *save, *baseline;
    unsigned allowed; /* bits of lab_key that may differ between two results */
    bool self_check;  /* A/A */
    int64_t check_trials;
    int argument_count; /* the arguments after the verb, for further processes */
    char **arguments;

    unsigned goals; /* of judge: bits of LAB_GOALS_* */
    bool goals_given;

    const char *report_file, *report_format, *plot; /* NULL: not given */
    bool dark;                                      /* the plot is for a dark page */
    double price_per_hour;
} cli_options;

/* One row of the table. */
typedef struct cli_option cli_option;

struct cli_option {
    const char *name; /* after the two dashes */
    char letter;      /* after one dash; 0: none */
    const char
        *value; /* its name in the help; NULL: takes no value; "[=X]": optional, only after = */
    unsigned verbs;
    bool (*apply)(cli_options *o, const cli_option *option, const char *value);
    size_t field;         /* offset in cli_options, if apply needs one */
    const char *modifier; /* the name for lab_spec_set(), for shape flags */
    const char *help;
};

/* The table, in the order of the help. */
extern const cli_option cli_option_table[];
extern const size_t cli_option_count;

/* Read the arguments after the verb. On an error: prints it to stderr, returns false. */
bool cli_options_read(cli_options *o, const char *program, const char *verb, unsigned verb_bit,
                      int argc, char **argv);
void cli_options_free(cli_options *o);

/* The seed for the rows of a verification: --rows-seed, or --seed if given; NULL:
 * unpredictable. */
const uint64_t *cli_rows_seed(const cli_options *o);

/* The number of problems to verify at once: as given, or as suits the context's device. */
int cli_jobs(const cli_options *o, const att_context *ctx);

/* "attest VERB: " and the message, on stderr; returns false. */
bool cli_complain(const cli_options *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
