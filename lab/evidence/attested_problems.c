/* attested_problems.c: checks errors against bars, samples against floors, launches against
 * digests, and lists against the selector. */
#include "lab/evidence/attested_problems.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/machine.h"
#include "lab/measure/bench.h"
#include "lab/plan/cpu_floor.h"
#include "lab/plan/plan_device.h"
#include "lab/plan/plan_kernels.h"
#include "lab/problem/problem_json.h"
#include "lab/tensors/buffer.h"
#include "lab/verify/verify.h"

/* A GPU may run faster than the clock in its data sheet, so its real floor may be lower than
 * the one computed from the sheet; by no more than a quarter. */
static const double clock_slack = 1.25;

/* Relative tolerance: numbers are written with 15 digits. */
static const double written = 1e-9;

typedef struct reading {
    lab_attestation *a;
    const att_kernel_row *row; /* NULL: the kernel is unknown */
    lab_chooser chooser;       /* set if there is a row */
    lab_device device;         /* of a GPU, if devices/ describes it */
    bool described;
    double threads;     /* of a CPU */
    lab_claims *claims; /* NULL: not wanted */
    lab_message *why;
} reading;

/* --------------------------------------------------------------------- the device */

/* The threads and the instruction set that ran; the latter is that of the kernel. */
static bool know_cpu(reading *r, const lab_node *machine) {
    const lab_node isa = lab_node_member(machine, "isa"),
                   threads = lab_node_member(machine, "threads");
    const char *name = NULL;
    if (!lab_node_number(machine, "threads", &r->threads, r->why) ||
        !lab_node_text(machine, "isa", &name, r->why))
        return false;
    if (!(r->threads >= 1.0 && r->threads <= 1e5))
        return lab_node_fail(&threads, "is out of range", r->why);
    return !r->row || strcmp(name, lab_isa_name(r->row->isa)) == 0 ||
           lab_node_fail(&isa, "is not that of the kernel", r->why);
}

/* The limits by which the library chooses: those of the file about that GPU. The statement must
 * not contradict them. */
static bool know_device(reading *r, const lab_node *predicate) {
    const lab_attestation *a = r->a;
    const lab_node machine = lab_node_member(predicate, "machine"),
                   gpu = lab_node_member(&machine, "gpu"), name = lab_node_member(&gpu, "name");
    r->chooser = (lab_chooser){.row = r->row, .amx_f32 = a->amx_f32};
    r->described = a->cc && lab_device_named(&r->device, a->device);
    if (!a->cc)
        return know_cpu(r, &machine);
    return lab_chooser_set_gpu(&r->chooser, a->device, a->cc, a->sms) ||
           lab_node_fail(&name,
                         "its compute capability or multiprocessors are those of another GPU",
                         r->why);
}

/* -------------------------------------------------------------------- one problem */

static bool is_near(double a, double b) {
    return fabs(a - b) <= written * fabs(b);
}

/* Whether the bar follows from the recorded numbers. An ulp jumps at powers of two, where the
 * digits that were cut may matter. */
static bool bar_follows(const lab_output *output, double plain, double largest, double bar) {
    return is_near(bar, lab_bar_of(output, plain, largest)) ||
           is_near(bar, lab_bar_of(output, plain, largest * (1.0 - written))) ||
           is_near(bar, lab_bar_of(output, plain, largest * (1.0 + written)));
}

/* The plain reference rounds scores, weights and answers to the types of the problem. Whatever
 * a file says, its error is at most a fraction of the largest answer or, among denormals, an
 * ulp. The largest seen is 1/80, in float32 over 2,200,000 keys. */
static bool plain_is_plausible(const lab_output *output, double plain, double largest) {
    if (output->is_integer) /* it must equal the oracle's: the plain reference does not
                             * matter */
        return true;
    const double scale = output->is_log || output->is_difference ? fmax(largest, 1.0) : largest;
    return plain >= 0.0 && plain <= scale / 32.0 + lab_bar_of(output, 0.0, largest) / 4.0;
}

/* Check one of error_o, error_lse, ...: it is within its bar, and the bar is right. */
static bool judge_error(reading *r, const lab_node *verify, const lab_output *output) {
    char name[32];
    snprintf(name, sizeof name, "error_%s", output->name);
    const lab_node error = lab_node_member(verify, name),
                   place = lab_node_member(&error, "bar"),
                   plain_place = lab_node_member(&error, "plain");
    double kernel = 0.0, plain = 0.0, largest = 0.0, bar = 0.0;
    if (!lab_node_number(&error, "kernel", &kernel, r->why) ||
        !lab_node_number(&error, "plain", &plain, r->why) ||
        !lab_node_number(&error, "largest", &largest, r->why) ||
        !lab_node_number(&error, "bar", &bar, r->why))
        return false;
    const bool none = output->absent;
    if (none && kernel == 0.0 && plain == 0.0 && largest == 0.0 && bar == 0.0)
        return true;
    if (none || !bar_follows(output, plain, largest, bar))
        return lab_node_fail(&place, "does not follow from the plain reference's error",
                             r->why);
    if (!plain_is_plausible(output, plain, largest))
        return lab_node_fail(&plain_place, "is too large for a plain reference", r->why);
    if (!(kernel >= 0.0 && kernel <= bar))
        return lab_node_fail(&error, "an error is above its bar", r->why);
    double rms = 0.0, rms_bar = INFINITY; /* of timed problems */
    if (!lab_node_number_maybe(&error, "kernel_rms", &rms, r->why) ||
        !lab_node_number_maybe(&error, "bar_rms", &rms_bar, r->why))
        return false;
    if (rms_bar > 0.0 && !(rms >= 0.0 && rms <= rms_bar))
        return lab_node_fail(&error, "an average error is above its bar", r->why);
    if (kernel / bar > r->a->worst_share)
        r->a->worst_share = kernel / bar;
    return true;
}

/* What other statements must agree with. */
static bool claim(reading *r, const lab_spec *spec, const lab_node *verify, size_t at,
                  bool timed) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    uint64_t base = lab_hash(1, line, strlen(line));
    base = lab_hash(base, r->a->judge, sizeof r->a->judge);
    base = lab_hash(base, &r->a->seed, sizeof r->a->seed);
    const lab_outputs outputs = spec->operation->outputs(spec);
    lab_claim c = {.at = (uint32_t)at, .timed = timed};
    c.rows_checked = json_number_value(json_object_get(verify->value, "rows_checked"));
    c.rows_total = json_number_value(json_object_get(verify->value, "rows_total"));
    for (int i = 0; r->claims && i < outputs.count; i++) {
        char name[32];
        c.output = outputs.list[i].name;
        c.key = lab_hash(base, c.output, strlen(c.output));
        snprintf(name, sizeof name, "error_%s", c.output);
        c.bar = json_number_value(json_object_get(json_object_get(verify->value, name), "bar"));
        if (!lab_claims_add(r->claims, &c))
            return lab_fail(r->why, "no memory for the evidence");
    }
    return true;
}

static bool judge_verify(reading *r, const lab_node *problem, const lab_spec *spec) {
    const lab_node verify = lab_node_member(problem, "verify"),
                   place = lab_node_member(&verify, "outcome"),
                   rows = lab_node_member(&verify, "rows_checked");
    const char *outcome = NULL;
    double checked = 0.0, total = 0.0;
    if (!lab_node_text(&verify, "outcome", &outcome, r->why) ||
        !lab_node_number(&verify, "rows_checked", &checked, r->why) ||
        !lab_node_number(&verify, "rows_total", &total, r->why))
        return false;
    if (strcmp(outcome, "pass") != 0)
        return lab_node_fail(&place, "a problem did not pass", r->why);
    if (!(checked <= total && (checked >= 1.0 || total == 0.0)))
        return lab_node_fail(&rows, "the number of checked rows is 0 or too large", r->why);
    if (total == 0.0 && !spec->operation->is_void(spec))
        return lab_node_fail(&rows, "no row was checked, and the problem has some", r->why);
    const lab_outputs outputs = spec->operation->outputs(spec);
    for (int i = 0; i < outputs.count; i++)
        if (!judge_error(r, &verify, &outputs.list[i]))
            return false;
    return true;
}

/* Whether this library has the machine code that the statement is about, not the same sources
 * built by another compiler. */
static bool has_attested_code(const reading *r) {
    lab_code_digests own = {.code = ""};
    lab_code_digests_of(&own, r->row, r->a->cc, NULL);
    return strcmp(own.code, r->a->code) == 0;
}

/* The digest of the machine code that `kernel` must have had; "" if this library cannot
 * tell. */
static void code_of(const reading *r, const att_kernel_row *kernel, char out[ATT_SHA256_HEX]) {
    lab_code_digests digests = {.code = ""};
    if (kernel != r->row && has_attested_code(r))
        lab_code_digests_of(&digests, kernel, r->a->cc, NULL);
    snprintf(out, ATT_SHA256_HEX, "%s", kernel == r->row ? r->a->code : digests.code);
}

/* The launch record names the kernel and, on a GPU, the code of the subject. A kernel that
 * helps another one runs beside the recorded kernel. */
static bool judge_launch(reading *r, const lab_node *problem, const lab_spec *spec) {
    const lab_node launch = lab_node_member(problem, "launch"),
                   kernel_place = lab_node_member(&launch, "kernel"),
                   code_place = lab_node_member(&launch, "code_sha256"),
                   grid = lab_node_member(&launch, "grid");
    const char *kernel = NULL, *code = NULL;
    char words[160], want_code[ATT_SHA256_HEX];
    if (!r->row)
        return true;
    if (!lab_node_text(&launch, "kernel", &kernel, r->why) ||
        !lab_node_text(&launch, "code_sha256", &code, r->why) ||
        !lab_node_is_array(&grid, r->why))
        return false;
    if (!*kernel && spec->operation->is_void(spec))
        return true;
    const att_kernel_row *want =
        lab_row_helps(r->row) ? lab_chooser_choice(&r->chooser, spec) : r->row;
    if (!want) /* this library has no code for it */
        return true;
    snprintf(words, sizeof words, "is %.60s, expected %.60s", kernel, want->id);
    if (strcmp(kernel, want->id) != 0)
        return lab_node_fail(&kernel_place, words, r->why);
    if (!r->a->cc)
        return true;
    code_of(r, want, want_code);
    if (*want_code && strcmp(code, want_code) != 0)
        return lab_node_fail(&code_place, "differs from the statement's code", r->why);
    if (spec->operation->is_void(spec)) /* nothing is launched, whatever the record names */
        return true;
    for (size_t i = 0; i < 3; i++)
        if (json_integer_value(json_array_get(grid.value, i)) < 1)
            return lab_node_fail(&grid, "is not a grid", r->why);
    return true;
}

static int compare_numbers(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The lower bound on the time of the problem on that GPU, from its device file; 0 if there is
 * none. */
static double floor_of(const reading *r, const lab_spec *spec) {
    return r->described ? lab_bench_floor_ns(spec, &r->device, LAB_WARM) / clock_slack : 0.0;
}

/* The same of a CPU, whose statements record no floor. */
static double cpu_floor_of(const reading *r, const lab_spec *spec) {
    return r->a->cc ? 0.0 : 1e9 * lab_spec_flops(spec) / lab_cpu_peak_anywhere(r->threads);
}

/* The interval encloses the median; the counts are there. */
static bool judge_interval(reading *r, const lab_node *timed, double median) {
    static const struct {
        const char *name;
        double least;
    } counts[] = {{"calls_per_sample", 1.0}, {"discarded", 0.0}, {"power_capped", 0.0}};
    const lab_node low_place = lab_node_member(timed, "low_ns");
    double low = 0.0, high = 0.0, count = 0.0;
    if (!lab_node_time(timed, "low_ns", &low, r->why) ||
        !lab_node_time(timed, "high_ns", &high, r->why))
        return false;
    if (!(low <= median && median <= high))
        return lab_node_fail(&low_place, "it and high_ns do not enclose the median", r->why);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const lab_node place = lab_node_member(timed, counts[i].name);
        if (!lab_node_number(timed, counts[i].name, &count, r->why))
            return false;
        if (!(count >= counts[i].least))
            return lab_node_fail(&place, "is out of range", r->why);
    }
    return true;
}

/* The claimed median must be that of the samples shown, and not below what this device can
 * reach. */
static bool judge_samples(reading *r, const lab_node *timed, const lab_spec *spec) {
    const lab_node median_place = lab_node_member(timed, "median_ns"),
                   floor_place = lab_node_member(timed, "floor_ns");
    double claimed = 0.0, floor = 0.0, *samples = NULL;
    size_t count = 0;
    if (!lab_node_time(timed, "median_ns", &claimed, r->why) ||
        !lab_node_number(timed, "floor_ns", &floor, r->why) ||
        !lab_node_times(timed, "samples_ns", &samples, &count, r->why))
        return false;
    qsort(samples, count, sizeof *samples, compare_numbers);
    const double median = lab_quantile(samples, count, 0.5);
    free(samples);
    if (!is_near(claimed, median) && fabs(claimed - median) > 1e-6 * median)
        return lab_node_fail(&median_place, "is not the median of the samples", r->why);
    if (floor < floor_of(r, spec))
        return lab_node_fail(&floor_place, "is below the least time of that device", r->why);
    if (claimed < floor)
        return lab_node_fail(&median_place, "is below the floor", r->why);
    if (claimed < cpu_floor_of(r, spec))
        return lab_node_fail(&median_place, "is less than any processor needs", r->why);
    return judge_interval(r, timed, claimed);
}

/* The problem of an entry: a line, or an object that has it. */
static bool read_spec(reading *r, const lab_node *entry, lab_spec *spec) {
    const lab_node place = lab_node_member(entry, "problem");
    const char *line = json_string_value(
        json_is_object(place.value) ? json_object_get(place.value, "spec") : place.value);
    lab_message words;
    if (!line)
        return lab_node_fail(&place, "is missing", r->why);
    if (!lab_spec_parse(spec, line, &words))
        return lab_node_fail(&place, words.text, r->why);
    if (!json_is_object(place.value))
        return true;
    json_t *shape = lab_json_problem(spec);
    const bool same = json_equal(place.value, shape);
    json_decref(shape);
    return same || lab_node_fail(&place, "its fields are not those of its spec", r->why);
}

static bool judge_entries(reading *r, const lab_node *list, bool timed) {
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        const lab_node entry = lab_node_element(list, i);
        lab_spec spec;
        if (!read_spec(r, &entry, &spec) || !judge_verify(r, &entry, &spec) ||
            !judge_launch(r, &entry, &spec) || (timed && !judge_samples(r, &entry, &spec)))
            return false;
        const lab_node verify = lab_node_member(&entry, "verify");
        if (!claim(r, &spec, &verify, i, timed))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------------- the lists */

/* A list of the statement, walked in parallel with the one that certify would take. */
typedef struct walk {
    reading *r;
    const lab_node *list; /* "verified" or "timed" */
    json_t *unsplit;      /* for a kernel that helps others: problems in which it had nothing to
                           * do */
    size_t at, passed;    /* position in each */
} walk;

static const char *line_at(const json_t *list, size_t i) {
    const json_t *entry = json_array_get(list, i), *problem = json_object_get(entry, "problem");
    const char *line =
        json_string_value(json_is_object(problem) ? json_object_get(problem, "spec") : problem);
    return line ? line : "";
}

/* Whether a kernel that helps others may have had nothing to do: there is nothing to compute,
 * or it merges parts of the keys, and the keys are not, as far as is known, split. */
static bool may_be_idle(const reading *r, const lab_spec *spec) {
    if (spec->operation->is_void(spec))
        return true;
    return r->row->cuda->role == ATT_ROLE_COMBINE &&
           lab_plan_parts(lab_chooser_choice(&r->chooser, spec), &r->chooser.gpu, spec) <= 1;
}

/* The next problem that certify would take must be the next in the list. */
static bool walk_on(walk *w, const lab_spec *spec) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    const char *skipped = json_string_value(json_array_get(w->unsplit, w->passed));
    if (strcmp(line_at(w->list->value, w->at), line) == 0) {
        w->at++;
        return true;
    }
    if (skipped && strcmp(skipped, line) == 0 && may_be_idle(w->r, spec)) {
        w->passed++;
        return true;
    }
    return lab_fail(&w->r->a->other_problems, "%s: %s: %.200s is missing", w->list->file,
                    w->list->path, line);
}

static bool walk_ends(walk *w) {
    if (w->at == json_array_size(w->list->value) && w->passed == json_array_size(w->unsplit))
        return true;
    return lab_fail(&w->r->a->other_problems,
                    "%s: %s: has %zu problems, but attest certify runs %zu", w->list->file,
                    w->list->path, json_array_size(w->list->value), w->at);
}

static bool lists_agree(reading *r, const lab_node *predicate, const lab_suite_set *usual) {
    const lab_node verified = lab_node_member(predicate, "verified"),
                   timed = lab_node_member(predicate, "timed"),
                   unsplit = lab_node_member(predicate, "unsplit");
    const bool merges = lab_row_helps(r->row);
    walk w = {.r = r,
              .list = &verified,
              .unsplit = merges ? json_object_get(unsplit.value, "verified") : NULL};
    const lab_spec *spec;
    size_t at = 0;
    while ((spec = lab_chooser_next_checked(&r->chooser, usual, &at)))
        if (!walk_on(&w, spec))
            return false;
    if (!walk_ends(&w))
        return false;
    const lab_spec **list = calloc(usual->timed.count + 1, sizeof *list);
    if (!list)
        return lab_fail(&r->a->other_problems, "no memory for the problems");
    const size_t count = lab_chooser_timed(&r->chooser, usual, list);
    w = (walk){.r = r,
               .list = &timed,
               .unsplit = merges ? json_object_get(unsplit.value, "timed") : NULL};
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++)
        ok = walk_on(&w, list[i]);
    free(list);
    return ok && walk_ends(&w);
}

bool lab_attested_problems(lab_attestation *a, const lab_node *predicate,
                           const att_kernel_row *row, const lab_suite_set *usual,
                           lab_claims *claims, lab_message *why) {
    const lab_node verified = lab_node_member(predicate, "verified"),
                   timed = lab_node_member(predicate, "timed");
    reading r = {.a = a, .row = row, .claims = claims, .why = why};
    a->verified = json_array_size(verified.value);
    a->timed = json_array_size(timed.value);
    if (a->verified == 0)
        return lab_node_fail(&verified, "has no problems", why);
    if (a->timed == 0)
        return lab_node_fail(&timed, "has no problems", why);
    if (!know_device(&r, predicate) || !judge_entries(&r, &verified, false) ||
        !judge_entries(&r, &timed, true))
        return false;
    if (row && !a->partial && lab_chooser_could_run(&r.chooser))
        lists_agree(&r, predicate, usual);
    return true;
}
