/* report_checks.c: what is known about the measurement itself: self-checks, saboteurs, and
 * profiles. */
#include <string.h>

#include "lab/report/report_model.h"

const char *const lab_report_share_keys[LAB_REPORT_SHARES] = {
    "tensor_percent", "dram_percent", "l2_percent", "occupancy_percent"};

bool lab_report_read_check(lab_report *report, size_t file, const lab_node *check,
                           lab_message *why) {
    lab_report_check *list =
        lab_report_grow(report->checks, report->check_count, sizeof *list, why);
    if (!list)
        return false;
    report->checks = list;
    lab_report_check *c = &list[report->check_count];
    *c = (lab_report_check){.file = file};
    if (!lab_node_is_object(check, why) || !lab_node_text(check, "kind", &c->kind, why) ||
        !lab_node_text(check, "expected", &c->expected, why) ||
        !lab_node_number_maybe(check, "slowdown", &c->slowdown, why) ||
        !lab_node_number(check, "verdicts", &c->verdicts, why) ||
        !lab_node_number(check, "right", &c->right, why))
        return false;
    const lab_node right = lab_node_member(check, "right");
    if (!(c->right >= 0.0 && c->right <= c->verdicts && c->verdicts < 1e9))
        return lab_node_fail(&right, "expected a count up to that of the verdicts", why);
    report->check_count++;
    return true;
}

static bool read_saboteur(lab_report *report, size_t file, const lab_node *node,
                          lab_message *why) {
    lab_report_saboteur *list =
        lab_report_grow(report->saboteurs, report->saboteur_count, sizeof *list, why);
    if (!list)
        return false;
    report->saboteurs = list;
    lab_report_saboteur *s = &list[report->saboteur_count];
    *s = (lab_report_saboteur){.file = file, .deed = "", .stage = "", .check = ""};
    if (!lab_node_is_object(node, why) || !lab_node_text(node, "name", &s->name, why) ||
        !lab_node_text(node, "outcome", &s->outcome, why) ||
        !lab_node_text_maybe(node, "deed", &s->deed, why) ||
        !lab_node_text_maybe(node, "stage", &s->stage, why) ||
        !lab_node_text_maybe(node, "check", &s->check, why) ||
        !lab_node_flag_maybe(node, "honest", &s->honest, why))
        return false;
    report->saboteur_count++;
    return true;
}

bool lab_report_read_audit(lab_report *report, size_t file, lab_message *why) {
    const lab_node root = lab_node_root(report->files[file].name, report->files[file].document);
    const lab_node results = lab_node_member(&root, "results");
    if (!lab_report_read_device(&report->files[file], &root, why) ||
        !lab_node_is_array(&results, why))
        return false;
    for (size_t i = 0; i < json_array_size(results.value); i++) {
        const lab_node node = lab_node_element(&results, i);
        if (!read_saboteur(report, file, &node, why))
            return false;
    }
    return true;
}

static bool read_launch(lab_report *report, size_t file, const lab_node *node,
                        const char *problem, lab_message *why) {
    lab_report_launch *list =
        lab_report_grow(report->launches, report->launch_count, sizeof *list, why);
    if (!list)
        return false;
    report->launches = list;
    lab_report_launch *l = &list[report->launch_count];
    *l = (lab_report_launch){.file = file, .problem = problem, .bottleneck = ""};
    const lab_node metrics = lab_node_member(node, "metrics");
    if (!lab_node_is_object(node, why) || !lab_node_text(node, "kernel", &l->kernel, why) ||
        !lab_node_text_maybe(node, "bottleneck", &l->bottleneck, why) ||
        !lab_node_is_object(&metrics, why))
        return false;
    for (size_t i = 0; i < LAB_REPORT_SHARES; i++) {
        l->shares[i] = -1.0;
        if (!lab_node_number_maybe(&metrics, lab_report_share_keys[i], &l->shares[i], why))
            return false;
    }
    report->launch_count++;
    return true;
}

bool lab_report_read_profile(lab_report *report, size_t file, lab_message *why) {
    const lab_node root = lab_node_root(report->files[file].name, report->files[file].document);
    const lab_node launches = lab_node_member(&root, "launches");
    const char *problem = "";
    if (!lab_report_read_device(&report->files[file], &root, why) ||
        !lab_report_read_problem(&root, &problem, why) || !lab_node_is_array(&launches, why))
        return false;
    for (size_t i = 0; i < json_array_size(launches.value); i++) {
        const lab_node node = lab_node_element(&launches, i);
        if (!read_launch(report, file, &node, problem, why))
            return false;
    }
    return true;
}
