/* report_model.h: the contents of result files, gathered for a report.
 *
 * A report is made from any number of files: from `attest bench`, the benches against PyTorch,
 * `attest ablate`, gpu_peaks, and attestations. Timings of one problem by attest and by a rival
 * in one file become a comparison with a verdict; timings of one problem by attest in several
 * files become its history. Nothing depends on the clock or the machine that makes the report:
 * the same files give the same report. */
#ifndef LAB_REPORT_MODEL_H
#define LAB_REPORT_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lab/base/json_node.h"
#include "lab/base/message.h"
#include "lab/measure/results.h"
#include "lab/statistics/stats.h"
#include "lab/statistics/verdict.h"

/* A fact about the environment, as recorded in the file. */
typedef struct lab_report_fact {
    const char *name, *value;
} lab_report_fact;

typedef enum lab_report_kind {
    LAB_REPORT_BENCH,     /* attest-bench-1, -2 */
    LAB_REPORT_GPU_TORCH, /* attest-gpu-vs-torch-1 */
    LAB_REPORT_CPU_TORCH, /* attest-cpu-vs-torch-1 */
    LAB_REPORT_ABLATION,  /* attest-ablation-1 */
    LAB_REPORT_PEAKS,     /* attest-gpu-peaks-1 */
    LAB_REPORT_STATEMENT, /* in-toto Statement v1 */
    LAB_REPORT_AUDIT,     /* attest-audit-1 */
    LAB_REPORT_PROFILE,   /* attest-profile-1 */
    LAB_REPORT_COMPARE,   /* attest-compare-1 */
    LAB_REPORT_MEDIANS,   /* attest-rival-medians-1 */
    LAB_REPORT_OTHER      /* another schema of attest, found in a folder: listed, not shown */
} lab_report_kind;

enum {
    LAB_REPORT_OTHERS = 5, /* rivals that are in no table but still get their own shape */
    LAB_REPORT_FACTS = 24,
    LAB_REPORT_TIMINGS = 20000 /* in all files: each is compared with each */
};

typedef struct lab_report_file {
    const char *name; /* relative to the argument that it was found through */
    char digest[65];  /* sha256 of its bytes */
    json_t *document;
    lab_report_kind kind;
    const char *schema, *version, *date; /* version of attest, date: "" if the file has none */
    const char *device;                  /* "NVIDIA H200"; "" if the file has none */
    lab_report_fact facts[LAB_REPORT_FACTS];
    size_t fact_count;
    double device_seconds;  /* as recorded; 0: not recorded */
    double copy_bytes;      /* bytes per second of a copy in the same run; 0: not measured */
    double timed_seconds;   /* samples times the calls in each */
    lab_results bench;      /* of LAB_REPORT_BENCH */
    const char *kernel;     /* for LAB_REPORT_STATEMENT, as is the next: the kernel that it is
                             * about */
    size_t verified, timed; /* number of problems */
} lab_report_file;

/* One timed problem. */
typedef struct lab_report_timing {
    size_t file;
    const char *group;   /* "forward"; "" if the file has none */
    const char *problem; /* its line */
    const char *variant; /* "2 threads"; "" if there is nothing to add */
    const char *subject; /* "attest", or the rival's name and version */
    const char *rival;   /* short name, as used by goals: "flash", "cudnn", "default";
                          * "attest" */
    const char *mode;    /* "warm", "sustained" ... */
    const char *timer;   /* "graph", "cpu", "wall" ... */
    int threads;         /* of a CPU; 0: unknown */
    const char *kernel;  /* "" if unknown */
    bool ours;           /* the subject is attest */
    bool older; /* a later file has attest on this problem with a kernel of another family */
    bool rung;  /* the same file has attest on this problem with another kernel */
    bool tile;  /* and that kernel is of the same family: not a ladder, but tiles that were
                 * tried */
    const char *failure; /* why it was not timed: a wrong answer, a refusal; "" if it was */
    lab_samples
        samples; /* nanoseconds per call; none if it was not timed, or only its median is
                  * recorded */
    lab_summary ns;
    double flops, bytes; /* per call; 0: unknown */
    double floor_ns;     /* 0: unknown */
} lab_report_timing;

/* Two timings that are compared. */
typedef struct lab_report_pair {
    size_t ours, theirs;     /* indices of timings; theirs may be an earlier run of attest */
    lab_verdict verdict;     /* of ours compared with theirs */
    double speed, low, high; /* ours as a multiple of theirs: above 1 is faster */
    bool unjudged; /* only medians are recorded: there is no verdict and no interval */
} lab_report_pair;

/* One switch setting of an ablation. */
typedef struct lab_report_variant {
    const char *name, *kind, *outcome;
    lab_samples samples; /* none if it was not timed */
    lab_summary ns;
} lab_report_variant;

typedef struct lab_report_ablation {
    size_t file;
    const char *kernel, *problem;
    lab_report_variant *variants;
    size_t variant_count;
} lab_report_ablation;

/* `attest bench --aa` or `--inject`: verdicts on the same code twice, or on code slowed
 * down. */
typedef struct lab_report_check {
    size_t file;
    const char *kind, *expected; /* "aa" or "inject"; a verdict */
    double slowdown;             /* as a fraction */
    double verdicts, right;
} lab_report_check;

/* One subject of `attest audit`. */
typedef struct lab_report_saboteur {
    size_t file;
    const char *name, *deed, *outcome, *stage, *check;
    bool honest;
} lab_report_saboteur;

enum { LAB_REPORT_SHARES = 4 };

/* One kernel under the profiler. */
typedef struct lab_report_launch {
    size_t file;
    const char *problem, *kernel, *bottleneck;
    double
        shares[LAB_REPORT_SHARES]; /* percent: see lab_report_share_keys; negative: unknown */
} lab_report_launch;

extern const char *const lab_report_share_keys[LAB_REPORT_SHARES];

typedef struct lab_report {
    lab_report_file *files; /* oldest first: by date, then version, then name */
    size_t file_count;
    lab_report_timing *timings;
    size_t timing_count;
    lab_report_pair *pairs; /* against rivals; the newest of each problem and rival */
    size_t pair_count;
    lab_report_pair *medians; /* against rivals with only medians recorded: unjudged */
    size_t median_count;
    size_t superseded;        /* comparisons that a newer file repeats */
    lab_report_pair *history; /* attest compared with the first run of the same problem */
    size_t history_count;
    lab_report_ablation *ablations;
    size_t ablation_count;
    lab_report_check *checks;
    size_t check_count;
    lab_report_saboteur *saboteurs;
    size_t saboteur_count;
    lab_report_launch *launches;
    size_t launch_count;
    const char *others[LAB_REPORT_OTHERS]; /* names of rivals, in the order of the files */
    size_t other_count;
    void **blocks; /* memory that the fields above point to */
    size_t block_count;
    double price_per_hour; /* of device time; 0: not given */
} lab_report;

/* Read the files and folders (every .json below them) and compare. Fails naming the file and
 * the field. */
bool lab_report_make(lab_report *report, const char *const *paths, size_t count,
                     lab_message *why);
void lab_report_free(lab_report *report);

/* ---------------------------------------------------------------- for the readers */

/* Keep `block` from malloc() as long as the report. If memory ran out it is freed at once and
 * NULL returned. */
void *lab_report_keep(lab_report *report, void *block);

/* A text that lives as long as the report; "" if memory ran out. */
const char *lab_report_text(lab_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Add a fact to the file; does nothing if the value is empty or there is no room. */
void lab_report_fact_add(lab_report_file *file, const char *name, const char *value);

/* The sizes of a problem, with these names. */
bool lab_report_sizes(const lab_node *from, const char *const names[], size_t count,
                      double *sizes, lab_message *why);

/* Make room for one more element of a list; NULL with a message if memory ran out. */
void *lab_report_grow(void *list, size_t count, size_t element, lab_message *why);

/* The times of an array, with their rounds in order: for interleaved samples. */
bool lab_report_samples(lab_report *report, const lab_node *object, const char *name,
                        lab_samples *out, lab_message *why);

/* Add a timing with its summary and, from the line of its problem, the work. `problem` is the
 * place of that line. */
bool lab_report_add_timing(lab_report *report, const lab_report_timing *timing,
                           const lab_node *problem, lab_message *why);

/* The readers for each kind of file; `file` is the index in report->files. */
bool lab_report_read_bench(lab_report *report, size_t file, lab_message *why);
bool lab_report_read_gpu_torch(lab_report *report, size_t file, lab_message *why);
bool lab_report_read_cpu_torch(lab_report *report, size_t file, lab_message *why);
bool lab_report_read_ablation(lab_report *report, size_t file, lab_message *why);
bool lab_report_read_peaks(lab_report *report, size_t file, lab_message *why);
bool lab_report_read_statement(lab_report *report, size_t file, lab_message *why);
bool lab_report_read_audit(lab_report *report, size_t file, lab_message *why);
bool lab_report_read_profile(lab_report *report, size_t file, lab_message *why);
bool lab_report_read_compare(lab_report *report, size_t file, lab_message *why);
bool lab_report_read_medians(lab_report *report, size_t file, lab_message *why);

/* The verdicts against a baseline that the file itself records, if any. */
bool lab_report_read_baseline(lab_report *report, size_t file, lab_message *why);

/* The findings of a bench that checks itself. `check` is their place. */
bool lab_report_read_check(lab_report *report, size_t file, const lab_node *check,
                           lab_message *why);

/* The name of the device, from "machine" of `root`. */
bool lab_report_read_device(lab_report_file *file, const lab_node *root, lab_message *why);

/* The line of "problem", which is a string or an object with "spec". */
bool lab_report_read_problem(const lab_node *root, const char **line, lab_message *why);

/* Compare one timing with another, round by round if both are from one run. */
bool lab_report_hold(const lab_report *report, lab_report_pair *pair, size_t ours,
                     size_t theirs, lab_message *why);

/* Give each rival that is not known by name its own slot. */
void lab_report_name_rivals(lab_report *report);

/* Fill pairs, medians, superseded, history and the flags `older` and `rung` from the timings. */
bool lab_report_compare(lab_report *report, lab_message *why);

#endif
