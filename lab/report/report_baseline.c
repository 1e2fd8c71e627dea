/* report_baseline.c: verdicts against a baseline, as recorded by `attest bench --baseline` and
 * `attest compare`. */
#include <string.h>

#include "lab/report/report_model.h"

static bool read_kind(const lab_node *verdict, lab_verdict_kind *out, lab_message *why) {
    const char *name = "";
    if (!lab_node_text(verdict, "verdict", &name, why))
        return false;
    for (int kind = LAB_FASTER; kind <= LAB_AMBIGUOUS; kind++)
        if (strcmp(name, lab_verdict_name((lab_verdict_kind)kind)) == 0) {
            *out = (lab_verdict_kind)kind;
            return true;
        }
    const lab_node node = lab_node_member(verdict, "verdict");
    return lab_node_fail(&node, "expected FASTER, SLOWER, SAME or AMBIGUOUS", why);
}

/* A relative change of time: above -1, which would be a time of zero. */
static bool read_effect(const lab_node *verdict, const char *name, double *out,
                        lab_message *why) {
    if (!lab_node_number(verdict, name, out, why))
        return false;
    const lab_node node = lab_node_member(verdict, name);
    return (*out > -1.0 && *out < 1e9) ||
           lab_node_fail(&node, "expected a change above -1", why);
}

static bool read_verdict(const lab_node *node, lab_verdict *v, lab_message *why) {
    return lab_node_is_object(node, why) && read_kind(node, &v->kind, why) &&
           read_effect(node, "effect", &v->effect, why) &&
           read_effect(node, "low", &v->low, why) && read_effect(node, "high", &v->high, why);
}

/* The two sides as timings with only a median, and the pair of them. */
static bool add_recorded(lab_report *report, size_t file, const lab_node *row,
                         const lab_verdict *verdict, const lab_report_timing *side,
                         double then_ns, double now_ns, lab_message *why) {
    const lab_node problem = lab_node_member(row, "problem");
    lab_report_timing ours = *side, theirs = *side;
    ours.file = theirs.file = file;
    ours.ours = true;
    ours.ns = (lab_summary){.median = now_ns, .low = now_ns, .high = now_ns};
    theirs.subject = theirs.rival = "the baseline";
    theirs.ns = (lab_summary){.median = then_ns, .low = then_ns, .high = then_ns};
    lab_report_pair *pairs =
        lab_report_grow(report->pairs, report->pair_count, sizeof *pairs, why);
    if (!pairs)
        return false;
    report->pairs = pairs;
    if (!lab_report_add_timing(report, &ours, &problem, why) ||
        !lab_report_add_timing(report, &theirs, &problem, why))
        return false;
    pairs[report->pair_count++] = (lab_report_pair){.ours = report->timing_count - 2,
                                                    .theirs = report->timing_count - 1,
                                                    .verdict = *verdict,
                                                    .speed = 1.0 / (1.0 + verdict->effect),
                                                    .low = 1.0 / (1.0 + verdict->high),
                                                    .high = 1.0 / (1.0 + verdict->low)};
    return true;
}

static bool read_row(lab_report *report, size_t file, const lab_node *row, lab_message *why) {
    const lab_node problem = lab_node_member(row, "problem");
    const lab_node verdict = lab_node_member(row, "verdict");
    lab_report_timing side = {.file = file,
                              .group = "",
                              .variant = "",
                              .subject = "attest",
                              .rival = "attest",
                              .mode = "",
                              .timer = "",
                              .kernel = "",
                              .failure = ""};
    const char *lost = NULL;
    double then_ns = 0.0, now_ns = 0.0;
    lab_verdict v = {0};
    if (!lab_node_is_object(row, why) || !lab_node_text(row, "problem", &side.problem, why) ||
        !lab_node_text_maybe(row, "subject_b", &side.subject, why) ||
        !lab_node_text_maybe(row, "kernel_b", &side.kernel, why) ||
        !lab_node_text_maybe(row, "lost", &lost, why))
        return false;
    if (lost) {
        side.ours = strcmp(side.subject, "attest") == 0;
        side.failure = lab_report_text(report, "%s, where the baseline has a time", lost);
        return lab_report_add_timing(report, &side, &problem, why);
    }
    if (strcmp(side.subject, "attest") != 0)
        return true; /* a rival compared with its own past does not concern attest */
    return lab_node_time(row, "median_a_ns", &then_ns, why) &&
           lab_node_time(row, "median_b_ns", &now_ns, why) && read_verdict(&verdict, &v, why) &&
           add_recorded(report, file, row, &v, &side, then_ns, now_ns, why);
}

bool lab_report_read_baseline(lab_report *report, size_t file, lab_message *why) {
    const lab_node root = lab_node_root(report->files[file].name, report->files[file].document);
    const lab_node comparison = lab_node_member(&root, "comparison");
    const lab_node rows = lab_node_member(&comparison, "rows");
    if (!comparison.value)
        return true;
    if (!lab_node_is_object(&comparison, why) || !lab_node_is_array(&rows, why))
        return false;
    for (size_t i = 0; i < json_array_size(rows.value); i++) {
        const lab_node row = lab_node_element(&rows, i);
        if (!read_row(report, file, &row, why))
            return false;
    }
    return true;
}

bool lab_report_read_compare(lab_report *report, size_t file, lab_message *why) {
    lab_report_file *f = &report->files[file];
    const lab_node root = lab_node_root(f->name, f->document);
    if (!lab_report_read_device(f, &root, why))
        return false;
    if (!*f->device)
        f->device = "a device that is not recorded";
    return lab_report_read_baseline(report, file, why);
}
