/* report_compare.c: which timings belong together, and the verdicts from their samples. */
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_model.h"
#include "lab/statistics/spans.h"

/* With fewer rounds, swapping sides cannot decide at 5 %, because 2^5 is 32: single samples are
 * shuffled then, which is also valid but less sensitive. */
enum { PAIRS_LEAST = 6 };

static const char *device_of(const lab_report *report, const lab_report_timing *t) {
    return report->files[t->file].device;
}

static bool same_problem(const lab_report_timing *a, const lab_report_timing *b) {
    return strcmp(a->problem, b->problem) == 0 && strcmp(a->variant, b->variant) == 0 &&
           strcmp(a->group, b->group) == 0;
}

/* Measured in the same way: on the same kind of device, by the same harness. */
static bool same_setting(const lab_report *report, const lab_report_timing *a,
                         const lab_report_timing *b) {
    return strcmp(device_of(report, a), device_of(report, b)) == 0 &&
           report->files[a->file].kind == report->files[b->file].kind;
}

/* The smallest difference that counts between rivals of one run: the largest that A/A runs by
 * the same harness on the device report. */
static double minimum_effect(const lab_report *report, const lab_report_timing *t) {
    double largest = 0.0;
    for (size_t i = 0; i < report->file_count; i++) {
        const lab_report_file *file = &report->files[i];
        if (file->kind == report->files[t->file].kind && file->bench.minimum_effect > largest &&
            file->bench.minimum_effect < 1.0 && strcmp(file->device, device_of(report, t)) == 0)
            largest = file->bench.minimum_effect;
    }
    return largest > 0.0 ? largest : LAB_MINIMUM_EFFECT;
}

/* The same between two runs: estimated from the noise between identical processes. */
static bool minimum_between(double *effect, const lab_report_timing *a,
                            const lab_report_timing *b, lab_message *why) {
    lab_spans spans = {.all = NULL};
    const bool ok =
        lab_spans_add(&spans, &a->samples, why) && lab_spans_add(&spans, &b->samples, why);
    *effect = lab_spans_minimum_effect(&spans);
    lab_spans_free(&spans);
    return ok;
}

bool lab_report_hold(const lab_report *report, lab_report_pair *pair, size_t ours,
                     size_t theirs, lab_message *why) {
    const lab_report_timing *a = &report->timings[theirs], *b = &report->timings[ours];
    *pair = (lab_report_pair){.ours = ours, .theirs = theirs};
    const bool paired = a->file == b->file && a->samples.count == b->samples.count &&
                        a->samples.count >= PAIRS_LEAST;
    double minimum = minimum_effect(report, b);
    if (a->file != b->file && !minimum_between(&minimum, a, b, why))
        return false;
    if (!lab_verdict_of(&pair->verdict, &a->samples, &b->samples,
                        paired ? LAB_PAIRED : LAB_UNPAIRED, minimum, 0, why))
        return false;
    /* An effect is a relative change of time; speeds are easier to read, and do not overlap
     * zero. */
    pair->speed = 1.0 / (1.0 + pair->verdict.effect);
    pair->low = 1.0 / (1.0 + pair->verdict.high);
    pair->high = 1.0 / (1.0 + pair->verdict.low);
    return true;
}

static bool add_pair(const lab_report *report, lab_report_pair **list, size_t *count,
                     size_t ours, size_t theirs, lab_message *why) {
    lab_report_pair *grown = lab_report_grow(*list, *count, sizeof *grown, why);
    if (!grown)
        return false;
    *list = grown;
    if (!lab_report_hold(report, &grown[*count], ours, theirs, why))
        return false;
    ++*count;
    return true;
}

static bool is_timed(const lab_report_timing *t) {
    return t->samples.count > 0;
}

/* Whether a later file times the same problem of attest against the same rival. */
static bool is_superseded(const lab_report *report, const lab_report_timing *rival) {
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *t = &report->timings[i];
        if (t->file > rival->file && is_timed(t) && !t->ours && same_problem(t, rival) &&
            strcmp(t->subject, rival->subject) == 0 && same_setting(report, t, rival))
            return true;
    }
    return false;
}

/* Attest's own timing beside the rival's: the only one of the problem in the file, or none. */
static size_t our_timing(const lab_report *report, const lab_report_timing *rival) {
    size_t found = report->timing_count;
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *t = &report->timings[i];
        if (t->file != rival->file || !t->ours || !is_timed(t) || !same_problem(t, rival))
            continue;
        if (found < report->timing_count)
            return report->timing_count; /* several kernels: it is not clear which one is
                                          * meant */
        found = i;
    }
    return found;
}

static bool compare_rivals(lab_report *report, lab_message *why) {
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *rival = &report->timings[i];
        if (rival->ours || !is_timed(rival))
            continue;
        const size_t ours = our_timing(report, rival);
        if (ours == report->timing_count)
            continue;
        if (is_superseded(report, rival))
            report->superseded++;
        else if (!add_pair(report, &report->pairs, &report->pair_count, ours, i, why))
            return false;
    }
    return true;
}

/* If a file has several kernels for one problem, each has its own history. */
static bool one_of_several(const lab_report *report, const lab_report_timing *t) {
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *other = &report->timings[i];
        if (other != t && other->file == t->file && other->ours && is_timed(other) &&
            same_problem(other, t))
            return true;
    }
    return false;
}

static bool is_earlier_run(const lab_report *report, const lab_report_timing *t,
                           const lab_report_timing *earlier) {
    if (earlier->file >= t->file || !earlier->ours || !is_timed(earlier) ||
        !same_problem(earlier, t) || !same_setting(report, earlier, t) ||
        earlier->tile != t->tile)
        return false;
    return strcmp(earlier->kernel, t->kernel) == 0 ||
           (!one_of_several(report, t) && !one_of_several(report, earlier));
}

static bool compare_runs(lab_report *report, lab_message *why) {
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *t = &report->timings[i];
        if (!t->ours || !is_timed(t))
            continue;
        for (size_t k = 0; k < i;
             k++) /* timings are in the order of the files: the first is the oldest */
            if (is_earlier_run(report, t, &report->timings[k])) {
                if (!add_pair(report, &report->history, &report->history_count, i, k, why))
                    return false;
                break;
            }
    }
    return true;
}

/* ------------------------------------------------------------------ medians, and age */

static bool has_median_alone(const lab_report *report, const lab_report_timing *t) {
    return report->files[t->file].kind == LAB_REPORT_MEDIANS && t->ns.median > 0.0;
}

/* Pair attest with each rival of its cell; cells are in the order of the file. */
static bool pair_medians(lab_report *report, lab_message *why) {
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *theirs = &report->timings[i];
        if (theirs->ours || !has_median_alone(report, theirs))
            continue;
        for (size_t k = 0; k < report->timing_count; k++) {
            const lab_report_timing *ours = &report->timings[k];
            if (!ours->ours || ours->file != theirs->file || !same_problem(ours, theirs))
                continue;
            lab_report_pair *list =
                lab_report_grow(report->medians, report->median_count, sizeof *list, why);
            if (!list)
                return false;
            report->medians = list;
            const double speed = theirs->ns.median / ours->ns.median;
            list[report->median_count++] = (lab_report_pair){.ours = k,
                                                             .theirs = i,
                                                             .speed = speed,
                                                             .low = speed,
                                                             .high = speed,
                                                             .unjudged = true};
            break;
        }
    }
    return true;
}

/* The operation and the architecture of a kernel: "fwd_sm90" of
 * "fwd_sm90_bf16_d128_m128n128s2". */
static size_t family_length(const char *kernel) {
    const size_t first = strcspn(kernel, "_");
    return kernel[first] ? first + 1 + strcspn(kernel + first + 1, "_") : first;
}

static bool same_family(const char *a, const char *b) {
    const size_t length = family_length(a);
    return length == family_length(b) && strncmp(a, b, length) == 0;
}

/* Whether another family has run the same problem on the same device since, with any harness
 * and at any pace: what was measured then is not what runs now. */
static bool is_older(const lab_report *report, const lab_report_timing *t) {
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *later = &report->timings[i];
        if (later->ours && later->file > t->file && *later->kernel &&
            later->threads == t->threads && !same_family(later->kernel, t->kernel) &&
            strcmp(later->problem, t->problem) == 0 &&
            strcmp(device_of(report, later), device_of(report, t)) == 0 &&
            !one_of_several(report, later)) /* a ladder includes old kernels on purpose */
            return true;
    }
    return false;
}

static void mark_older(lab_report *report) {
    for (size_t i = 0; i < report->timing_count; i++) {
        lab_report_timing *t = &report->timings[i];
        t->older = t->ours && *t->kernel && is_older(report, t);
    }
}

/* Whether the same file has attest on this problem with another kernel, of the same family
 * or any. */
static bool is_rung(const lab_report *report, const lab_report_timing *t, bool of_family) {
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *other = &report->timings[i];
        if (other != t && other->file == t->file && other->ours &&
            strcmp(other->problem, t->problem) == 0 &&
            strcmp(other->variant, t->variant) == 0 && strcmp(other->kernel, t->kernel) != 0 &&
            (!of_family || same_family(other->kernel, t->kernel)))
            return true;
    }
    return false;
}

/* Once: the figures ask for every timing again and again. */
static void mark_rungs(lab_report *report) {
    for (size_t i = 0; i < report->timing_count; i++) {
        lab_report_timing *t = &report->timings[i];
        t->rung = t->ours && is_rung(report, t, false);
        t->tile = t->rung && is_rung(report, t, true);
    }
}

bool lab_report_compare(lab_report *report, lab_message *why) {
    mark_older(report);
    mark_rungs(report);
    lab_report_name_rivals(report);
    return compare_rivals(report, why) && pair_medians(report, why) &&
           compare_runs(report, why);
}
