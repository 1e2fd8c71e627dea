/* report_medians.c: medians of attest and its rivals that another program measured: speeds
 * without verdicts. */
#include <stdio.h>
#include <string.h>

#include "lab/report/report_model.h"

/* "NVIDIA H200, driver 580, CUDA 13.0": the device, then other facts about it. */
static bool read_setting(lab_report *report, lab_report_file *file, const lab_node *root,
                         lab_message *why) {
    const char *machine = "", *method = "";
    if (!lab_node_text(root, "machine", &machine, why) ||
        !lab_node_text_maybe(root, "method", &method, why))
        return false;
    const size_t length = strcspn(machine, ",");
    file->device = lab_report_text(report, "%.*s", (int)length, machine);
    machine += length;
    lab_report_fact_add(file, "machine", machine + strspn(machine, ", "));
    lab_report_fact_add(file, "method", method);
    return true;
}

/* A description of each rival. */
static bool read_rivals(lab_report_file *file, const lab_node *rivals, lab_message *why) {
    const char *name;
    json_t *ignored;
    if (!rivals->value)
        return true;
    if (!lab_node_is_object(rivals, why))
        return false;
    json_object_foreach(rivals->value, name, ignored) {
        const char *text = "";
        if (!lab_node_text(rivals, name, &text, why))
            return false;
        lab_report_fact_add(file, name, text);
    }
    return true;
}

/* The problem's line from its sizes. */
static bool read_sizes(lab_report *report, const lab_node *cell, const char **line,
                       lab_message *why) {
    static const char *const names[] = {"batch", "heads_q", "heads_kv", "seq_q",
                                        "seq_k", "d_qk",    "d_v",      "causal"};
    double sizes[8];
    const char *dtype = "";
    if (!lab_report_sizes(cell, names, 8, sizes, why) ||
        !lab_node_text(cell, "dtype", &dtype, why))
        return false;
    *line = lab_report_text(report, "b%.0fh%.0fhkv%.0fs%.0fsk%.0fd%.0fdv%.0f,%.20s%s", sizes[0],
                            sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6],
                            strcmp(dtype, "bfloat16") == 0  ? "bf16"
                            : strcmp(dtype, "float16") == 0 ? "fp16"
                            : strcmp(dtype, "float32") == 0 ? "f32"
                                                            : dtype,
                            sizes[7] != 0.0 ? ",causal" : "");
    return true;
}

static bool read_cell(lab_report *report, size_t file, const lab_node *cell, lab_message *why) {
    const lab_node times = lab_node_member(cell, "us");
    const char *group = "", *kernel = "", *line = "", *name;
    json_t *ignored;
    if (!lab_node_is_object(cell, why) || !lab_node_text_maybe(cell, "group", &group, why) ||
        !lab_node_text_maybe(cell, "kernel", &kernel, why) ||
        !read_sizes(report, cell, &line, why) || !lab_node_is_object(&times, why))
        return false;
    json_object_foreach(times.value, name, ignored) {
        double us = 0.0;
        if (!lab_node_time(&times, name, &us, why))
            return false;
        const bool ours = strcmp(name, "attest") == 0;
        const lab_report_timing t = {
            .file = file,
            .group = group,
            .problem = line,
            .variant = "",
            .subject = name,
            .rival = name,
            .mode = "warm",
            .timer = "graph",
            .kernel = ours ? kernel : "",
            .ours = ours,
            .failure = "",
            .ns = {.median = 1e3 * us, .low = 1e3 * us, .high = 1e3 * us},
        };
        if (!lab_report_add_timing(report, &t, cell, why))
            return false;
    }
    return true;
}

bool lab_report_read_medians(lab_report *report, size_t file, lab_message *why) {
    lab_report_file *f = &report->files[file];
    const lab_node root = lab_node_root(f->name, f->document);
    const lab_node rivals = lab_node_member(&root, "rivals"),
                   cells = lab_node_member(&root, "cells");
    if (!read_setting(report, f, &root, why) || !read_rivals(f, &rivals, why) ||
        !lab_node_is_array(&cells, why))
        return false;
    for (size_t i = 0; i < json_array_size(cells.value); i++) {
        const lab_node cell = lab_node_element(&cells, i);
        if (!read_cell(report, file, &cell, why))
            return false;
    }
    return true;
}
