/* report_torch.c: reads the files against PyTorch from the scripts that preceded attest.bench;
 * evidence is still kept in them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_model.h"

/* "2.11.0" of "2.11.0+cu130". */
static const char *short_version(lab_report *report, const char *version) {
    return lab_report_text(report, "%.*s", (int)strcspn(version, "+"), version);
}

/* ---------------------------------------------------------------------------- GPU */

/* "NVIDIA H200, GPU-640e..., 580.159.04, 700.00 W, 1980 MHz": a card as listed by
 * nvidia-smi. */
static void read_card(lab_report *report, lab_report_file *file, const char *card) {
    static const char *const names[] = {NULL, "GPU", "driver", "power limit", "highest clock"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && *card; i++) {
        const size_t length = strcspn(card, ",");
        const char *part = lab_report_text(report, "%.*s", (int)length, card);
        if (i == 0)
            file->device = part;
        else
            lab_report_fact_add(file, names[i], part);
        card += length;
        card += strspn(card, ", ");
    }
}

static bool read_gpu_device(lab_report *report, lab_report_file *file, const lab_node *root,
                            const char **torch, lab_message *why) {
    const lab_node device = lab_node_member(root, "device");
    const char *card = "", *version = "";
    double cudnn = 0.0, rounds = 0.0;
    if (!lab_node_is_object(&device, why) || !lab_node_text(&device, "card", &card, why) ||
        !lab_node_text(&device, "torch", &version, why) ||
        !lab_node_number_maybe(&device, "cudnn", &cudnn, why) ||
        !lab_node_number_maybe(root, "rounds", &rounds, why))
        return false;
    read_card(report, file, card);
    lab_report_fact_add(file, "PyTorch", version);
    if (cudnn > 0.0 && cudnn < 1e9)
        lab_report_fact_add(file, "cuDNN", lab_report_text(report, "%.0f", cudnn));
    if (rounds > 0.0 && rounds < 1e9)
        lab_report_fact_add(file, "rounds", lab_report_text(report, "%.0f", rounds));
    *torch = short_version(report, version);
    return true;
}

static bool read_gpu_row(lab_report *report, size_t file, const lab_node *row,
                         const char *torch, lab_message *why) {
    const lab_node samples = lab_node_member(row, "samples_us");
    const lab_node launch = lab_node_member(row, "launch");
    const lab_node problem = lab_node_member(row, "problem");
    lab_report_timing t = {.file = file,
                           .variant = "",
                           .mode = "warm",
                           .timer = "graph",
                           .kernel = "",
                           .failure = ""};
    double calls = 1.0;
    if (!lab_node_is_object(row, why) || !lab_node_text(row, "group", &t.group, why) ||
        !lab_node_text(row, "problem", &t.problem, why) ||
        !lab_node_text_maybe(&launch, "kernel", &t.kernel, why) ||
        !lab_node_number_maybe(row, "calls_per_sample", &calls, why) ||
        !lab_node_is_object(&samples, why))
        return false;
    const char *const line = t.problem;
    const char *name;
    json_t *ignored;
    json_object_foreach(samples.value, name, ignored) {
        if (!lab_report_samples(report, &samples, name, &t.samples, why))
            return false;
        double *values = (double *)t.samples.values; /* owned by us, and still in
                                                      * microseconds */
        for (size_t i = 0; i < t.samples.count; i++) {
            values[i] *= 1e3;
            report->files[file].timed_seconds += 1e-9 * values[i] * (calls > 0.0 ? calls : 1.0);
        }
        t.ours = strcmp(name, "attest") == 0;
        t.rival = name;
        t.subject = t.ours ? name : lab_report_text(report, "PyTorch %s %s", torch, name);
        t.problem = line;
        if (!t.ours)
            t.kernel = "";
        if (!lab_report_add_timing(report, &t, &problem, why))
            return false;
    }
    return true;
}

bool lab_report_read_gpu_torch(lab_report *report, size_t file, lab_message *why) {
    const lab_node root = lab_node_root(report->files[file].name, report->files[file].document);
    const lab_node rows = lab_node_member(&root, "rows");
    const char *torch = "";
    if (!read_gpu_device(report, &report->files[file], &root, &torch, why) ||
        !lab_node_is_array(&rows, why))
        return false;
    for (size_t i = 0; i < json_array_size(rows.value); i++) {
        const lab_node row = lab_node_element(&rows, i);
        if (!read_gpu_row(report, file, &row, torch, why))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------------------- CPU */

/* "peaks": the peak rates of the processor, by the number of threads. */
static bool read_cpu_peaks(lab_report *report, lab_report_file *file, const lab_node *root,
                           lab_message *why) {
    static const struct {
        const char *field, *name, *unit;
    } rates[] = {{"fma_gflops", "FMA", "GFLOP/s"},
                 {"amx_gflops", "AMX", "GFLOP/s"},
                 {"l3_gbs", "third-level cache", "GB/s"},
                 {"dram_gbs", "memory", "GB/s"}};
    const lab_node peaks = lab_node_member(root, "peaks");
    if (!lab_node_is_object(&peaks, why))
        return false;
    const char *threads;
    json_t *ignored;
    json_object_foreach(peaks.value, threads, ignored) {
        const lab_node peak = lab_node_member(&peaks, threads);
        const char *all = "";
        if (!lab_node_is_object(&peak, why) || !lab_node_text(&peak, "cpu", &file->device, why))
            return false;
        for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
            double rate = 0.0;
            if (!lab_node_number_maybe(&peak, rates[i].field, &rate, why))
                return false;
            if (rate > 0.0 && rate < 1e9)
                all = lab_report_text(report, "%s%s%s %.4g %s", all, *all ? ", " : "",
                                      rates[i].name, rate, rates[i].unit);
        }
        lab_report_fact_add(
            file, lab_report_text(report, "measured peaks, threads: %.8s", threads), all);
    }
    return true;
}

/* The problem's line from its sizes: these files have none. */
static bool cpu_problem(lab_report *report, const lab_node *row, const char **line,
                        lab_message *why) {
    static const char *const names[] = {"b", "hq", "hkv", "sq", "sk", "d"};
    double sizes[6];
    const char *dtype = "";
    bool causal = false;
    if (!lab_report_sizes(row, names, 6, sizes, why) ||
        !lab_node_text(row, "dtype", &dtype, why) ||
        !lab_node_flag_maybe(row, "causal", &causal, why))
        return false;
    *line = lab_report_text(report, "b%.0fh%.0fhkv%.0fs%.0fsk%.0fd%.0f,%s%s", sizes[0],
                            sizes[1], sizes[2], sizes[3], sizes[4], sizes[5],
                            strcmp(dtype, "f16") == 0 ? "fp16" : dtype,
                            !causal                ? ""
                            : sizes[3] == sizes[4] ? ",causal"
                                                   : ",causal=bottom-right");
    return true;
}

static bool read_cpu_row(lab_report *report, size_t file, const lab_node *row,
                         const char *torch, lab_message *why) {
    const lab_node samples = lab_node_member(row, "samples_ns");
    lab_report_timing t = {
        .file = file, .mode = "warm", .timer = "cpu", .kernel = "", .failure = ""};
    double threads = 0.0;
    const char *line = "", *kernel = "";
    if (!lab_node_is_object(row, why) || !lab_node_text(row, "kind", &t.group, why) ||
        !lab_node_number(row, "threads", &threads, why) ||
        !lab_node_text_maybe(row, "kernel", &kernel, why) ||
        !cpu_problem(report, row, &line, why) || !lab_node_is_object(&samples, why))
        return false;
    t.variant = lab_report_text(report, "%.0f thread%s", threads, threads == 1.0 ? "" : "s");
    if (strcmp(t.group, "f16") == 0) /* the old name of the type */
        t.group = "fp16";
    t.threads = threads > 0.0 && threads < 1e6 ? (int)threads : 0;
    const char *name;
    json_t *ignored;
    json_object_foreach(samples.value, name, ignored) {
        if (!lab_report_samples(report, &samples, name, &t.samples, why))
            return false;
        for (size_t i = 0; i < t.samples.count; i++)
            report->files[file].timed_seconds += 1e-9 * t.samples.values[i];
        t.ours = strcmp(name, "attest") == 0;
        t.rival = strcmp(name, "torch") == 0 ? "default" : name;
        t.subject = t.ours                       ? name
                    : strcmp(name, "torch") == 0 ? lab_report_text(report, "PyTorch %s", torch)
                                                 : name;
        t.kernel = t.ours ? kernel : "";
        t.problem = line;
        if (!lab_report_add_timing(report, &t, row, why))
            return false;
    }
    return true;
}

bool lab_report_read_cpu_torch(lab_report *report, size_t file, lab_message *why) {
    const lab_node root = lab_node_root(report->files[file].name, report->files[file].document);
    const lab_node rows = lab_node_member(&root, "rows");
    const char *torch = "";
    if (!lab_node_text(&root, "torch", &torch, why) ||
        !read_cpu_peaks(report, &report->files[file], &root, why) ||
        !lab_node_is_array(&rows, why))
        return false;
    lab_report_fact_add(&report->files[file], "PyTorch", torch);
    torch = short_version(report, torch);
    for (size_t i = 0; i < json_array_size(rows.value); i++) {
        const lab_node row = lab_node_element(&rows, i);
        if (!read_cpu_row(report, file, &row, torch, why))
            return false;
    }
    return true;
}
