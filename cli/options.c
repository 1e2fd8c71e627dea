/* options.c: the option table, and the parser that uses it. */
#include "cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/clean_text.h"
#include "lab/base/jobs.h"
#include "lab/base/machine.h"
#include "lab/base/suggest.h"
#include "lab/measure/bench.h"
#include "lab/measure/comparison.h"
#include "lab/report/standing.h"
#include "lab/verify/verify_jobs.h"

bool cli_complain(const cli_options *o, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "attest%s%s: %s\n", *o->verb ? " " : "", o->verb, lab_clean_line(text));
    return false;
}

/* ------------------------------------------------------------ what an option does */

static void *field_of(cli_options *o, const cli_option *option) {
    return (char *)o + option->field;
}

static bool set_text(cli_options *o, const cli_option *option, const char *value) {
    *(const char **)field_of(o, option) = value;
    return true;
}

static bool set_flag(cli_options *o, const cli_option *option, const char *value) {
    (void)value;
    *(bool *)field_of(o, option) = true;
    return true;
}

static bool set_count(cli_options *o, const cli_option *option, const char *value) {
    char *end;
    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (end == value || *end || errno || number < 1 || number > 1000000000)
        return cli_complain(o, "--%s %s: expected a whole number from 1 to 1000000000",
                            option->name, value);
    *(int64_t *)field_of(o, option) = number;
    return true;
}

/* K/N: the K-th of N parts. */
static bool set_part(cli_options *o, const cli_option *option, const char *value) {
    char *end;
    o->part = strtoll(value, &end, 10);
    o->parts = *end == '/' ? strtoll(end + 1, &end, 10) : 0;
    return (*end == '\0' && o->part >= 1 && o->parts >= o->part && o->parts <= 1000) ||
           cli_complain(o, "--%s %s: expected a part such as 2/3, the second of three",
                        option->name, value);
}

static bool set_seed(cli_options *o, const cli_option *option, const char *value) {
    char *end;
    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (end == value || *end || errno || number < 0)
        return cli_complain(o, "--%s %s: expected a whole number from 0 to 2^63-1",
                            option->name, value);
    *(uint64_t *)field_of(o, option) = (uint64_t)number;
    *(option->field == offsetof(cli_options, seed) ? &o->seed_given : &o->rows_seed_given) =
        true;
    return true;
}

static bool set_seconds(cli_options *o, const cli_option *option, const char *value) {
    char *end;
    const double number = strtod(value, &end);
    if (end == value || *end || !(number >= 0.0 && number <= 1e6))
        return cli_complain(o, "--%s %s: expected seconds from 0 to 1000000", option->name,
                            value);
    *(double *)field_of(o, option) = number;
    return true;
}

/* A fraction, given in per cent. */
static bool set_percent(cli_options *o, const cli_option *option, const char *value) {
    char *end;
    const double number = strtod(value, &end);
    if (end == value || *end || !(number >= 0.0 && number < 100.0))
        return cli_complain(o, "--%s %s: expected a percentage from 0 to below 100",
                            option->name, value);
    *(double *)field_of(o, option) = number / 100.0;
    return true;
}

static bool set_ranks(cli_options *o, const cli_option *option, const char *value) {
    const char *at = value;
    for (o->rank_count = 0; o->rank_count < CLI_RANKS_MAX;) {
        char *end;
        const long long number = strtoll(at, &end, 10);
        if (end == at || number < 2 || number > LAB_RANKS_MOST || (*end && *end != ','))
            break;
        o->ranks[o->rank_count++] = (int)number;
        if (!*end)
            return true;
        at = end + 1;
    }
    return cli_complain(o, "--%s %s: expected up to %d numbers from 2 to %d, such as 2,8,64",
                        option->name, value, CLI_RANKS_MAX, LAB_RANKS_MOST);
}

static bool set_link(cli_options *o, const cli_option *option, const char *value) {
    lab_message why;
    return lab_link_parse(&o->link, value, &why) ||
           cli_complain(o, "--%s %s: %s", option->name, value, why.text);
}

static bool set_timer(cli_options *o, const cli_option *option, const char *value) {
    for (o->timer = 0; o->timer < LAB_TIMER_COUNT; o->timer++)
        if (strcmp(value, lab_timer_name((lab_timer)o->timer)) == 0)
            return true;
    return cli_complain(o, "--%s %s: expected graph, events or latency", option->name, value);
}

static bool set_allowed(cli_options *o, const cli_option *option, const char *value) {
    lab_message why;
    return lab_keys_parse(&o->allowed, value, &why) ||
           cli_complain(o, "--%s: %s", option->name, why.text);
}

static bool set_goals(cli_options *o, const cli_option *option, const char *value) {
    lab_message why;
    o->goals_given = true;
    return lab_goals_parse(&o->goals, value, &why) ||
           cli_complain(o, "--%s: %s", option->name, why.text);
}

static bool set_price(cli_options *o, const cli_option *option, const char *value) {
    char *end;
    const double number = strtod(value, &end);
    if (end == value || *end || !(number > 0.0 && number <= 1e6))
        return cli_complain(o, "--%s %s: expected a price above 0", option->name, value);
    o->price_per_hour = number;
    return true;
}

static bool set_format(cli_options *o, const cli_option *option, const char *value) {
    if (strcmp(value, "html") != 0 && strcmp(value, "md") != 0 && strcmp(value, "term") != 0)
        return cli_complain(o, "--%s %s: expected html, md or term", option->name, value);
    o->report_format = value;
    return true;
}

/* A device of this machine; false if the word does not name one. */
static bool read_device(cli_options *o, const char *value) {
    o->device_index = 0;
    o->virtual_gpu = strcmp(value, "virtual") == 0;
    if (o->virtual_gpu) {
        o->device = ATT_DEVICE_CUDA;
        return true;
    }
    if (strcmp(value, "auto") == 0 || strcmp(value, "cpu") == 0) {
        o->device = *value == 'a' ? ATT_DEVICE_AUTO : ATT_DEVICE_CPU;
        return true;
    }
    if (strncmp(value, "cuda", 4) == 0 && (value[4] == '\0' || value[4] == ':')) {
        o->device = ATT_DEVICE_CUDA;
        if (value[4] == '\0')
            return true;
        char *end;
        const long index = strtol(value + 5, &end, 10);
        if (end != value + 5 && !*end && index >= 0 && index < 1024 && value[5] != '-') {
            o->device_index = (int)index;
            return true;
        }
    }
    return false;
}

static bool set_device(cli_options *o, const cli_option *option, const char *value) {
    return read_device(o, value) ||
           cli_complain(o, "--%s %s: expected cpu, cuda, cuda:N or virtual", option->name,
                        value);
}

/* The same, or a GPU that is not present, by the name of its device file. */
static bool set_any_device(cli_options *o, const cli_option *option, const char *value) {
    (void)option;
    o->plan_device = read_device(o, value) ? NULL : value;
    return true;
}

/* A list: `--isa avx2,avx512`. */
static bool set_isa(cli_options *o, const cli_option *option, const char *value) {
    o->isa_count = 0;
    for (const char *at = value;; at++) {
        char name[16];
        const size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (o->isa_count == CLI_ISA_MAX || length >= sizeof name ||
            !lab_isa_parse(&o->isa[o->isa_count], name))
            return cli_complain(o,
                                "--%s %s: expected portable, avx2, avx512, avx512_bf16, amx, "
                                "neon or auto (several with commas)",
                                option->name, value);
        o->isa_count++;
        at += length;
        if (!*at)
            return true;
    }
}

static bool add_kernel(cli_options *o, const cli_option *option, const char *value) {
    if (o->kernel_count == CLI_KERNEL_MAX)
        return cli_complain(o, "--%s is given more than %d times", option->name,
                            CLI_KERNEL_MAX);
    o->kernels[o->kernel_count++] = value;
    return true;
}

static bool add_peer(cli_options *o, const cli_option *option, const char *value) {
    if (o->peer_count == CLI_PEER_MAX)
        return cli_complain(o, "--%s is given more than %d times", option->name, CLI_PEER_MAX);
    o->peers[o->peer_count++] = value;
    return true;
}

/* Make room for one more element in `list` of `count` elements; NULL with an error message if
 * memory ran out. A list grows at every power of two. */
static void *with_room(const cli_options *o, void *list, size_t count, size_t element) {
    if (count & (count - 1))
        return list;
    void *grown = realloc(list, (count ? 2 * count : 1) * element);
    if (!grown)
        cli_complain(o, "out of memory");
    return grown;
}

static bool add_shape(cli_options *o, const cli_option *option, const char *value) {
    (void)option;
    const char **shapes = with_room(o, o->shapes, o->shape_count, sizeof *shapes);
    if (!shapes)
        return false;
    o->shapes = shapes;
    o->shapes[o->shape_count++] = value;
    return true;
}

static bool add_suite(cli_options *o, const cli_option *option, const char *value) {
    (void)option;
    const char **suites = with_room(o, o->suites, o->suite_count, sizeof *suites);
    if (!suites)
        return false;
    o->suites = suites;
    o->suites[o->suite_count++] = value;
    return true;
}

static bool add_modifier_row(cli_options *o, const cli_option *option, const char *value,
                             bool of_shape) {
    cli_modifier *modifiers = with_room(o, o->modifiers, o->modifier_count, sizeof *modifiers);
    if (!modifiers)
        return false;
    o->modifiers = modifiers;
    o->modifiers[o->modifier_count++] = (cli_modifier){
        .name = option->modifier, .value = value, .flag = option->name, .of_shape = of_shape};
    return true;
}

/* Flags that describe a shape, which array files already have, and flags for both. */
static bool add_shape_flag(cli_options *o, const cli_option *option, const char *value) {
    return add_modifier_row(o, option, value, true);
}

static bool add_mask_flag(cli_options *o, const cli_option *option, const char *value) {
    return add_modifier_row(o, option, value, false);
}

/* ---------------------------------------------------------------------- the table */

#define VARIES    (CLI_ABLATE | CLI_TUNE)
#define ON_DEVICE (CLI_RUN | CLI_EXPLAIN | CLI_VERIFY | CLI_BENCH | VARIES)
#define PROBLEMS  (ON_DEVICE | CLI_PLAN | CLI_PROFILE)
#define TIMED     (CLI_BENCH | CLI_DEMO | CLI_CERTIFY)
#define OPENS     (CLI_INFO | ON_DEVICE | CLI_DEMO | CLI_AUDIT)
#define ALL                                                                                    \
    (OPENS | CLI_PLAN | CLI_DOCTOR | CLI_CERTIFY | CLI_PROFILE | CLI_COMPARE | CLI_JUDGE |     \
     CLI_SUITES)
#define JUDGED (CLI_BENCH | CLI_COMPARE)
#define AT(f)  offsetof(cli_options, f)
#define IN(f)  offsetof(cli_options, files.input[f])

const cli_option cli_option_table[] = {
    {"shape", 0, "SHAPE", PROBLEMS, add_shape, 0, NULL, "the same as a SHAPE argument"},
    {"suite", 0, "NAME", CLI_VERIFY | CLI_BENCH | CLI_CERTIFY | VARIES, add_suite, 0, NULL,
     "the problems of a suite (attest suites lists them), or of a file if NAME has a /"},
    {"batch", 'b', "N", PROBLEMS, add_shape_flag, 0, "b", "batch entries"},
    {"hq", 0, "N", PROBLEMS, add_shape_flag, 0, "hq", "query heads"},
    {"hkv", 0, "N", PROBLEMS, add_shape_flag, 0, "hkv",
     "key and value heads (the same as --hq)"},
    {"sq", 0, "N", PROBLEMS, add_shape_flag, 0, "sq", "query rows"},
    {"sk", 0, "N", PROBLEMS, add_shape_flag, 0, "sk", "keys (the same as --sq)"},
    {"head-dim", 'd', "N", PROBLEMS, add_shape_flag, 0, "d", "head dimension, 1 to 256"},
    {"dv", 0, "N", PROBLEMS, add_shape_flag, 0, "dv",
     "head dimension of V and O (the same as -d)"},
    {"dtype", 0, "TYPE", PROBLEMS, add_shape_flag, 0, "dtype",
     "fp16, bf16 or f32: type of Q, K and V"},
    {"with", 0, "MODIFIERS", PROBLEMS, add_shape_flag, 0, NULL,
     "further modifiers of a SHAPE, separated by commas: varlen,lse,bias=fp16"},
    {"dtype-o", 0, "TYPE", PROBLEMS, add_mask_flag, 0, "o", "type of O (the same as --dtype)"},
    {"layout", 0, "LAYOUT", PROBLEMS, add_mask_flag, 0, "layout",
     "bshd (the default) or bhsd; packed for shapes"},
    {"causal", 0, "[=ALIGN]", PROBLEMS, add_mask_flag, 0, "causal",
     "causal mask: top-left or bottom-right; plain --causal if rows = keys"},
    {"align", 0, "ALIGN", PROBLEMS, add_mask_flag, 0, "align",
     "top-left or bottom-right: the diagonal of --window and ALiBi without --causal"},
    {"window", 0, "L,R", PROBLEMS, add_mask_flag, 0, "window",
     "keys seen left and right of the diagonal; -1 for no limit"},
    {"q-offset", 0, "N", PROBLEMS, add_mask_flag, 0, "qoffset",
     "Q is a shard of a longer sequence: the position of its first row, for causal mask, "
     "window and ALiBi (0)"},
    {"k-offset", 0, "N", PROBLEMS, add_mask_flag, 0, "koffset",
     "K and V are a shard of it: the position of their first key (0)"},
    {"softcap", 0, "X", PROBLEMS, add_mask_flag, 0, "softcap",
     "replace each score by X tanh(score / X)"},
    {"scale", 0, "X", PROBLEMS, add_mask_flag, 0, "scale", "factor of the scores (1/sqrt(d))"},

    {"q", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_Q), NULL, "queries, .npy"},
    {"k", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_K), NULL, "keys, .npy"},
    {"v", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_V), NULL, "values, .npy"},
    {"output", 'o', "FILE", CLI_RUN, set_text, AT(files.o), NULL, "write O there, .npy"},
    {"lse", 0, "FILE", CLI_RUN, set_text, AT(files.lse), NULL,
     "write the log-sum-exp there, .npy, float32"},
    {"alibi", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_ALIBI), NULL,
     "slopes, (heads) or (batch, heads)"},
    {"bias", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_BIAS), NULL,
     "added to the scores, with broadcasting; of bool, False hides a key"},
    {"sinks", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_SINKS), NULL, "sink logits, (heads)"},
    {"cu-seqlens-q", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_CU_Q), NULL,
     "int32 (batch + 1): Q is (total, heads, d), split at these rows"},
    {"cu-seqlens-k", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_CU_K), NULL,
     "int32 (batch + 1): K and V are (total, heads, d), split at these rows"},
    {"lens-k", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_LENS_K), NULL,
     "int32 (batch): keys in use, of a K/V cache"},
    {"starts-k", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_STARTS_K), NULL,
     "int32 (batch): the first key in use (left padding)"},
    {"q-offsets", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_Q_OFFSETS), NULL,
     "int32 (batch): positions of the first rows, added to --q-offset"},
    {"k-offsets", 0, "FILE", CLI_RUN, set_text, IN(LAB_FILE_K_OFFSETS), NULL,
     "int32 (batch): positions of the first keys, added to --k-offset"},
    {"bf16", 0, NULL, CLI_RUN, set_flag, AT(files.uint16_is_bf16), NULL,
     "uint16 (and '|V2') arrays hold bfloat16; those that ml_dtypes saves ('<V2') need no "
     "option"},
    {"repeats", 0, "N", CLI_VERIFY, set_count, AT(repeats), NULL,
     "runs that must agree bit by bit (2)"},
    {"refusals", 0, "FILE", CLI_VERIFY, set_text, AT(refusals), NULL,
     "patterns of the problems that must be refused; all others must be served"},
    {"repeat", 0, "N", CLI_RUN, set_count, AT(repeats), NULL,
     "runs to time; the median is printed (1 for files, 5 for shapes)"},
    {"trace", 0, NULL, CLI_RUN, set_flag, AT(trace), NULL, "print the kernel's launch record"},

    {"min-samples", 0, "N", TIMED | VARIES, set_count, AT(min_samples), NULL,
     "least number of samples per problem (20)"},
    {"max-samples", 0, "N", TIMED | VARIES, set_count, AT(max_samples), NULL,
     "largest number of samples per problem (2000; certify: 100)"},
    {"seconds", 0, "X", TIMED | VARIES, set_seconds, AT(seconds), NULL,
     "sampling time per problem or variant (bench: 1; demo and ablate: 0.25; certify: 0.2; "
     "tune: 0.1)"},
    {"precision", 0, "PERCENT", CLI_BENCH, set_percent, AT(precision), NULL,
     "stop early once half the interval of every median is below this (0.25); 0: never"},
    {"timer", 0, "NAME", CLI_BENCH, set_timer, 0, NULL,
     "on a GPU: graph (the default), events, or latency (the host's time for a call)"},
    {"cold", 0, NULL, CLI_BENCH, set_flag, AT(cold), NULL,
     "flush the caches before every sample; a sample is then one call"},
    {"processes", 0, "N", CLI_BENCH, set_count, AT(processes), NULL,
     "measure in N processes, one after the other (1)"},
    {"save", 0, "NAME", CLI_BENCH, set_text, AT(save), NULL,
     "keep the result as baselines/NAME.json; a NAME with a / or ending in .json is a file"},
    {"baseline", 0, "NAME", CLI_BENCH, set_text, AT(baseline), NULL,
     "compare with what --save kept; exits 1 if a problem is slower or undecided"},
    {"min-effect", 0, "PERCENT", JUDGED, set_percent, AT(minimum_effect), NULL,
     "the smallest difference that counts (estimated from the noise between processes)"},
    {"allow", 0, "FIELDS", JUDGED, set_allowed, 0, NULL,
     "compare results even if they differ in these: kernel,driver,device,..."},
    {"goals", 0, "NAMES", CLI_JUDGE, set_goals, 0, NULL,
     "sets of goals, separated by commas, all or none (those of the device; an unknown name "
     "lists them)"},
    {"aa", 0, NULL, CLI_BENCH, set_flag, AT(self_check), NULL,
     "self-check: every problem against itself; estimates the minimum effect"},
    {"inject", 0, "PERCENT", CLI_BENCH, set_percent, AT(inject), NULL,
     "self-check: every problem against itself with PERCENT more calls, which must be found"},
    {"trials", 0, "N", CLI_BENCH, set_count, AT(check_trials), NULL,
     "measurements of a self-check (1)"},
    {"as-process", 0, "N", CLI_BENCH, set_count, AT(as_process), NULL,
     "internal: be process N of --processes and write only the document, to stdout"},
    {"csv", 0, "FILE", CLI_BENCH | CLI_DEMO | CLI_PROFILE | CLI_COMPARE, set_text, AT(csv),
     NULL, "write one row per problem; - for stdout"},

    {"list", 0, NULL, CLI_ABLATE, set_flag, AT(list), NULL, "list the switches and exit"},
    {"budget", 0, "SECONDS", CLI_TUNE, set_seconds, AT(budget), NULL,
     "time for the search and the last measurement, all problems together (60)"},
    {"trials", 0, "N", CLI_TUNE, set_count, AT(trials), NULL,
     "most variants to try, counting those on record (what the time allows)"},
    {"population", 0, "N", CLI_TUNE, set_count, AT(population), NULL,
     "variants per generation, 4 to 64 (12)"},
    {"output", 'o', "FILE", CLI_TUNE, set_text, AT(tuned), NULL,
     "the rows file to create or add to (tuned.rows)"},
    {"state", 0, "FILE", CLI_TUNE, set_text, AT(state), NULL,
     "the record of the search (the rows file's name, the problem's digest, .state)"},
    {"resume", 0, NULL, CLI_TUNE, set_flag, AT(resume), NULL,
     "continue from the record instead of starting again"},

    {"device", 0, "NAME", CLI_PLAN, set_text, AT(plan_device), NULL,
     "a GPU of devices/ (l4, a100, h200, ...), a .json file, or cuda[:N]"},
    {"ranks", 0, "N,...", CLI_PLAN, set_ranks, 0, NULL,
     "split the sequence over this many devices, and predict the time of each method"},
    {"link", 0, "GB/s,US", CLI_PLAN, set_link, 0, NULL,
     "with --ranks: rate between two ranks, and latency of a message in microseconds (0)"},
    {"whole", 0, "SECONDS", CLI_PLAN, set_seconds, AT(whole), NULL,
     "with --ranks: measured time of the whole problem on one rank (the model's)"},
    {"all", 0, NULL, CLI_INFO, set_flag, AT(all), NULL,
     "list every kernel, including those that cannot run here"},
    {"all", 0, NULL, CLI_EXPLAIN, set_flag, AT(all), NULL,
     "one line for every refused kernel, however many are refused for the same reason"},
    {"all", 0, NULL, CLI_PLAN, set_flag, AT(all), NULL,
     "list every tile, including those that do not fit"},

    {"output", 'o', "FILE", CLI_REPORT, set_text, AT(report_file), NULL,
     "write the report there; - for stdout (the default)"},
    {"format", 0, "FORMAT", CLI_REPORT, set_format, 0, NULL,
     "html, md or term (by the suffix of -o FILE: .html, .md, .txt; else term)"},
    {"svg", 0, "NAME", CLI_REPORT, set_text, AT(plot), NULL,
     "write only this plot of the page, as an SVG file; several with commas; list: print the "
     "names"},
    {"dark", 0, NULL, CLI_REPORT, set_flag, AT(dark), NULL, "with --svg: draw for a dark page"},
    {"price-per-hour", 0, "X", CLI_REPORT, set_price, 0, NULL,
     "price of the device per hour: the report then shows what its time cost"},

    {"timed", 0, "NAME", CLI_CERTIFY, set_text, AT(timed), NULL,
     "the suite to time (certify on a GPU, certify_cpu on a CPU)"},
    {"output", 'o', "DIR", CLI_CERTIFY, set_text, AT(folder), NULL,
     "write the attestations there (evidence/NAME/attestations)"},
    {"output", 'o', "FILE", CLI_PROFILE, set_text, AT(folder), NULL,
     "keep the report as FILE.ncu-rep (attest-profile)"},
    {"diff", 0, "BEFORE", CLI_PROFILE, set_text, AT(diff), NULL,
     "run nothing: compare two files, of --json or .ncu-rep; AFTER follows as an argument"},
    {"sign", 0, "KEY", CLI_CERTIFY, set_text, AT(sign), NULL,
     "sign each attestation with this SSH key, by ssh-keygen"},
    {"host-tests", 0, "FILE", CLI_CERTIFY, set_text, AT(host_tests), NULL,
     "measure nothing: make host.json from the results that tests/gpu/gpu_tests.sh wrote"},
    {"check", 0, NULL, CLI_CERTIFY, set_flag, AT(check), NULL,
     "measure nothing: check that the existing evidence is of this build"},
    {"evidence", 0, "DIR", CLI_INFO | CLI_CERTIFY, set_text, AT(evidence), NULL,
     "the folder of evidence (the one beside the program)"},
    {"signers", 0, "FILE", CLI_INFO | CLI_CERTIFY, set_text, AT(signers), NULL,
     "every attestation must be signed by one of these: an allowed_signers file of "
     "ssh-keygen(1)"},

    {"device", 0, "DEVICE", CLI_EXPLAIN, set_any_device, 0, NULL,
     "cpu, cuda[:N] or virtual; or a GPU that is not here: a name of devices/ (l4, a100, "
     "h200, ...) or a .json file"},
    {"device", 0, "DEVICE",
     (OPENS & ~(unsigned)CLI_EXPLAIN) | CLI_DOCTOR | CLI_CERTIFY | CLI_PROFILE, set_device, 0,
     NULL, "cpu, cuda[:N], or virtual: GPU kernels on the CPU (a GPU if there is one)"},
    {"kernel", 0, "GLOB", CLI_CERTIFY, add_kernel, 0, NULL,
     "only kernels whose ids match: 'decode_*', '*_d128_*'"},
    {"kernel", 0, "ID", OPENS | CLI_PROFILE, add_kernel, 0, NULL,
     "only this kernel, or those with a prefix: 'fwd_sm80*'; may be repeated in bench and "
     "verify"},
    {"peer", 0, "FILE.so", CLI_VERIFY | CLI_BENCH | CLI_CERTIFY, add_peer, 0, NULL,
     "another attention beside attest: a plug-in of attest_peer.h; may be repeated"},
    {"peer-limit", 0, "SECONDS", CLI_VERIFY | CLI_BENCH | CLI_CERTIFY, set_seconds,
     AT(peer_limit), NULL,
     "time limit for one call of a peer (60, and more for large problems)"},
    {"rows", 0, "FILE", OPENS & ~(unsigned)VARIES, set_text, AT(rows), NULL,
     "further kernels, as attest tune writes them (ATTEST_ROWS)"},
    {"allow-slow", 0, NULL, OPENS | CLI_PROFILE, set_flag, AT(allow_slow), NULL,
     "on a GPU, allow kernels that do not use tensor cores fully"},
    {"allow-unattested", 0, NULL, OPENS, set_flag, AT(allow_unattested), NULL,
     "allow kernels that ship without evidence"},
    {"isa", 0, "ISA", OPENS, set_isa, 0, NULL,
     "highest instruction set: portable, avx2, avx512, avx512_bf16, amx, neon or auto; bench "
     "and verify take a list"},
    {"threads", 0, "N", OPENS | CLI_CERTIFY, set_count, AT(threads), NULL,
     "CPU threads (all cores)"},
    {"jobs", 0, "N", CLI_VERIFY | CLI_CERTIFY, set_count, AT(jobs), NULL,
     "problems verified at once (1; on a GPU up to 8, by the number of processors)"},
    {"part", 0, "K/N", CLI_CERTIFY, set_part, 0, NULL,
     "only every N-th kernel, from the K-th on: N calls cover them all"},
    {"seed", 0, "N", OPENS | CLI_CERTIFY | CLI_PROFILE, set_seed, AT(seed), NULL,
     "seed of the random inputs (0)"},
    {"rows-seed", 0, "N", CLI_VERIFY, set_seed, AT(rows_seed), NULL,
     "seed that picks the rows to judge if there are too many (--seed, or random)"},
    {"json", 0, "FILE", ALL, set_text, AT(json), NULL,
     "write a JSON document; - for stdout, and text then goes to stderr"},
    {"help", 'h', NULL, ALL | CLI_REPORT, set_flag, AT(help), NULL, "print this help"},
};
const size_t cli_option_count = sizeof cli_option_table / sizeof cli_option_table[0];

/* --------------------------------------------------------------------- the parser */

/* The option of that name; if verbs share a name, the one of this verb. */
static const cli_option *find_long(const char *name, size_t length, unsigned verb_bit) {
    const cli_option *found = NULL;
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_option_table[i];
        if (strlen(option->name) == length && strncmp(option->name, name, length) == 0 &&
            (!found || option->verbs & verb_bit))
            found = option;
    }
    return found;
}

static const cli_option *find_letter(char letter, unsigned verb_bit) {
    const cli_option *found = NULL;
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_option_table[i];
        if (option->letter && option->letter == letter && (!found || option->verbs & verb_bit))
            found = option;
    }
    return found;
}

static bool unknown_option(const cli_options *o, unsigned verb_bit, const char *name,
                           size_t length) {
    char misspelt[64];
    snprintf(misspelt, sizeof misspelt, "%.*s", (int)(length < 60 ? length : 60), name);
    lab_suggestion best = {0};
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_option_table[i].verbs & verb_bit)
            lab_suggest(&best, misspelt, cli_option_table[i].name);
    if (best.word)
        return cli_complain(o, "there is no option --%s; did you mean --%s?", misspelt,
                            best.word);
    return cli_complain(o, "there is no option --%s; see 'attest help %s'", misspelt, o->verb);
}

static bool takes_value(const cli_option *option) {
    return option->value && option->value[0] != '[';
}

static bool apply(cli_options *o, unsigned verb_bit, const cli_option *option,
                  const char *value) {
    if (!(option->verbs & verb_bit))
        return cli_complain(o, "--%s is not an option of this verb; see 'attest help %s'",
                            option->name, o->verb);
    if (value && !option->value)
        return cli_complain(o, "--%s takes no value", option->name);
    if (value && !*value)
        return cli_complain(o, "--%s has an empty value", option->name);
    return option->apply(o, option, value);
}

/* Find the option in argv[*at] and its value, which may be the next argument. */
static bool read_option(cli_options *o, unsigned verb_bit, int argc, char **argv, int *at) {
    const char *argument = argv[*at];
    const cli_option *option;
    const char *value = NULL;
    if (argument[1] == '-') {
        const char *name = argument + 2;
        const size_t length = strcspn(name, "=");
        option = find_long(name, length, verb_bit);
        if (!option)
            return unknown_option(o, verb_bit, name, length);
        if (name[length] == '=')
            value = name + length + 1;
    } else {
        option = find_letter(argument[1], verb_bit);
        if (!option)
            return cli_complain(o, "there is no option -%c; see 'attest help %s'", argument[1],
                                o->verb);
        if (argument[2])
            value = argument + 2 + (argument[2] == '=');
    }
    if (!value && takes_value(option)) {
        /* A value may begin with one dash (a number, stdout), but not with two. */
        if (*at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0)
            return cli_complain(o, "--%s needs a value: %s", option->name, option->value);
        value = argv[++*at];
    }
    return apply(o, verb_bit, option, value);
}

/* A demonstration should finish in seconds; certify times a hundred problems and keeps their
 * samples; ablate and tune have many variants to time. */
static double default_seconds(unsigned verb_bit, double of_bench) {
    if (verb_bit & (CLI_DEMO | CLI_ABLATE))
        return 0.25;
    return verb_bit == CLI_CERTIFY ? 0.2 : verb_bit == CLI_TUNE ? 0.1 : of_bench;
}
enum { CERTIFY_SAMPLES = 100 };

/* Check the combination of options of `bench`. */
static bool check_bench(cli_options *o) {
    const bool checks_itself = o->self_check || o->inject > 0.0;
    if (o->self_check && o->inject > 0.0)
        return cli_complain(o,
                            "--aa and --inject cannot be combined: one self-check at a time");
    if (checks_itself && (o->baseline || o->processes > 1))
        return cli_complain(o,
                            "a self-check cannot be combined with --baseline or --processes");
    if (checks_itself && (o->isa_count > 1 || o->kernel_count > 1 || o->peer_count > 0))
        return cli_complain(
            o, "a self-check takes one instruction set, at most one --kernel and no --peer");
    if (o->inject > 0.0 && o->cold)
        return cli_complain(
            o, "--inject needs samples of many calls, but a --cold sample is one call");
    if (o->check_trials > 1 && !checks_itself)
        return cli_complain(o, "--trials is for --aa and --inject");
    if (o->processes > 64)
        return cli_complain(o, "--processes %" PRId64 ": expected at most 64", o->processes);
    if (o->as_process > 0) {
        o->json = "-";
        o->csv = o->save = o->baseline = NULL;
        o->processes = 1;
    }
    return true;
}

bool cli_options_read(cli_options *o, const char *program, const char *verb, unsigned verb_bit,
                      int argc, char **argv) {
    const lab_bench_options defaults = lab_bench_defaults();
    *o = (cli_options){.program = program,
                       .verb = verb,
                       .argument_count = argc,
                       .arguments = argv,
                       .precision = defaults.precision,
                       .processes = 1,
                       .check_trials = 1,
                       .isa = {ATT_ISA_AUTO},
                       .isa_count = 1,
                       .min_samples = (int64_t)defaults.min_samples,
                       .max_samples = verb_bit == CLI_CERTIFY ? CERTIFY_SAMPLES
                                                              : (int64_t)defaults.max_samples,
                       .budget = 60.0,
                       .population = 12,
                       .seconds = default_seconds(verb_bit, defaults.seconds)};
    bool only_shapes = false;
    for (int at = 0; at < argc; at++) {
        if (!only_shapes && strcmp(argv[at], "--") == 0)
            only_shapes = true;
        else if (!only_shapes && argv[at][0] == '-' && argv[at][1]) {
            if (!read_option(o, verb_bit, argc, argv, &at))
                return false;
        } else if (!(verb_bit & (PROBLEMS | CLI_COMPARE | CLI_REPORT | CLI_JUDGE | CLI_AUDIT)))
            return cli_complain(o, "takes no arguments, but was given '%s'", argv[at]);
        else if (!add_shape(o, NULL, argv[at]))
            return false;
    }
    if (o->isa_count > 1 && !(verb_bit & (CLI_VERIFY | CLI_BENCH)))
        return cli_complain(o, "--isa takes one instruction set here");
    if (o->kernel_count > 1 && !(verb_bit & (CLI_VERIFY | CLI_BENCH)))
        return cli_complain(o, "--kernel may be given once here");
    if (o->virtual_gpu && !(verb_bit & (CLI_INFO | CLI_RUN | CLI_EXPLAIN | CLI_VERIFY)))
        return cli_complain(o, "--device virtual is for verify, run, explain and info: its "
                               "times say nothing about a GPU");
    if (o->min_samples > o->max_samples)
        return cli_complain(o, "--min-samples %" PRId64 " is more than --max-samples %" PRId64,
                            o->min_samples, o->max_samples);
    if (o->threads > INT32_MAX)
        return cli_complain(o, "--threads %" PRId64 " is out of range", o->threads);
    if (o->jobs > LAB_JOBS_MOST)
        return cli_complain(o, "--jobs %" PRId64 ": at most %d at once", o->jobs,
                            LAB_JOBS_MOST);
    if (o->jobs > 1 && o->peer_count > 0)
        return cli_complain(o,
                            "--jobs and --peer cannot be combined: plug-ins run one at a time");
    return verb_bit != CLI_BENCH || check_bench(o);
}

int cli_jobs(const cli_options *o, const att_context *ctx) {
    return o->jobs ? (int)o->jobs : o->peer_count ? 1 : lab_verify_at_once(ctx);
}

const uint64_t *cli_rows_seed(const cli_options *o) {
    return o->rows_seed_given ? &o->rows_seed : o->seed_given ? &o->seed : NULL;
}

void cli_options_free(cli_options *o) {
    free(o->shapes);
    free(o->suites);
    free(o->modifiers);
}
