/* report_read.c: reads benches, ablations, peaks and attestations for a report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_model.h"

/* --------------------------------------------------------------------------- bench */

static const char *joined(lab_report *report, const char *left, const char *right) {
    return lab_report_text(report, "%s%s%s", left, *left && *right ? ", " : "", right);
}

/* The settings that must be equal for two timings of a problem to be comparable. */
static const char *variant_of(lab_report *report, const lab_result *r) {
    const char *variant = "";
    if (r->threads > 0)
        variant =
            lab_report_text(report, "%d thread%s", r->threads, r->threads == 1 ? "" : "s");
    if (*r->isa && strcmp(r->isa, "auto") != 0)
        variant = joined(report, variant, r->isa);
    if (strcmp(r->mode, "warm") != 0)
        variant = joined(report, variant, r->mode);
    if (strcmp(r->timer, "cpu") != 0 && strcmp(r->timer, "graph") != 0)
        variant = joined(report, variant, r->timer);
    return variant;
}

static bool read_machine(lab_report *report, lab_report_file *file, lab_message *why) {
    static const struct {
        const char *field, *name;
    } texts[] = {{"os", "system"}, {"isa_machine", "instruction set"}};
    const lab_node root = lab_node_root(file->name, file->document);
    const lab_node machine = lab_node_member(&root, "machine");
    const lab_node gpu = lab_node_member(&machine, "gpu");
    const lab_results *bench = &file->bench;
    file->device = *bench->gpu ? bench->gpu : bench->processor;
    file->device_seconds = bench->device_seconds;
    lab_report_fact_add(file, "processor", bench->processor);
    lab_report_fact_add(file, "GPU", bench->gpu_uuid);
    lab_report_fact_add(file, "driver", *bench->driver ? bench->driver : "");
    lab_report_fact_add(file, "compiler", bench->compiler);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *value = "";
        if (!lab_node_text_maybe(&machine, texts[i].field, &value, why))
            return false;
        lab_report_fact_add(file, texts[i].name, value);
    }
    double sms = 0.0, load = -1.0;
    if (!lab_node_number_maybe(&gpu, "multiprocessors", &sms, why) ||
        !lab_node_number_maybe(&root, "load_average_before", &load, why))
        return false;
    if (sms > 0.0 && sms < 1e6)
        lab_report_fact_add(file, "multiprocessors", lab_report_text(report, "%.0f", sms));
    if (load >= 0.0 && load < 1e6)
        lab_report_fact_add(file, "load before", lab_report_text(report, "%.2f", load));
    return true;
}

/* Minimum and maximum of an array in every result: clocks, power, temperature. A sensor without
 * a reading gives null or 0. */
static bool read_sensor(lab_report *report, lab_report_file *file, const char *field,
                        const char *name, const char *unit, lab_message *why) {
    const lab_node root = lab_node_root(file->name, file->document);
    const lab_node results = lab_node_member(&root, "results");
    double low = 0.0, high = 0.0;
    bool any = false;
    for (size_t i = 0; i < file->bench.count; i++) {
        const lab_node result = lab_node_element(&results, i);
        const lab_node values = lab_node_member(&result, field);
        if (values.value && !json_is_null(values.value) && !lab_node_is_array(&values, why))
            return false;
        for (size_t k = 0; k < json_array_size(values.value); k++) {
            const json_t *number = json_array_get(values.value, k);
            const double value = json_number_value(number);
            if (!json_is_number(number) && !json_is_null(number)) {
                const lab_node element = lab_node_element(&values, k);
                return lab_node_fail(&element, "expected a number", why);
            }
            if (!(value > 0.0 && value < 1e9))
                continue;
            low = !any || value < low ? value : low;
            high = !any || value > high ? value : high;
            any = true;
        }
    }
    if (any)
        lab_report_fact_add(file, name,
                            lab_report_text(report, "%.0f to %.0f %s", low, high, unit));
    return true;
}

static bool read_discards(lab_report *report, lab_report_file *file, lab_message *why) {
    const lab_node root = lab_node_root(file->name, file->document);
    const lab_node results = lab_node_member(&root, "results");
    size_t kept = 0, discarded = 0;
    double outliers = 0.0, capped = 0.0;
    for (size_t i = 0; i < file->bench.count; i++) {
        const lab_result *r = &file->bench.results[i];
        const lab_node result = lab_node_element(&results, i);
        lab_node apart;
        double below = 0.0, above = 0.0;
        if (!lab_node_object_maybe(&result, "outliers", &apart, why) ||
            !lab_node_number_maybe(&apart, "below", &below, why) ||
            !lab_node_number_maybe(&apart, "above", &above, why))
            return false;
        kept += r->samples.count;
        discarded += r->discarded < 1000000 ? r->discarded : 0;
        outliers += below + above;
        capped += r->power_capped < 1000000 ? (double)r->power_capped : 0.0;
    }
    if (outliers > 0.0 || discarded > 0 || capped > 0.0)
        lab_report_fact_add(
            file, "samples",
            lab_report_text(report,
                            "%zu kept, %.0f of them outliers (Tukey), %.0f at the "
                            "power limit; %zu discarded",
                            kept, outliers, capped, discarded));
    return true;
}

/* "refused: why"; some files have the outcome in the message too. */
static const char *failure_of(lab_report *report, const char *outcome, const char *said) {
    const size_t length = strlen(outcome);
    if (strncmp(said, outcome, length) == 0 && strncmp(said + length, ": ", 2) == 0)
        return said;
    return lab_report_text(report, "%s%s%s", outcome, *said ? ": " : "", said);
}

static bool read_result(lab_report *report, size_t file, const lab_node *place,
                        const lab_result *r, lab_message *why) {
    const lab_node verify = lab_node_member(place, "verify");
    const lab_node problem = lab_node_member(place, "problem");
    const char *said = "", *group = "", *rival = r->subject;
    if (!lab_node_text_maybe(&verify, "message", &said, why) ||
        !lab_node_text_maybe(place, "group", &group, why) ||
        !lab_node_text_maybe(place, "rival", &rival, why))
        return false;
    lab_report_timing t = {
        .file = file,
        .group = group,
        .problem = r->problem,
        .variant = variant_of(report, r),
        .subject = r->subject,
        .rival = rival,
        .mode = r->mode,
        /* What was refused has no timer yet, but a device. */
        .timer =
            !r->timed && r->threads == 0 && *report->files[file].bench.gpu ? "graph" : r->timer,
        .threads = r->threads,
        .kernel = r->kernel,
        .ours = strcmp(r->subject, "attest") == 0,
        .floor_ns = r->floor_ns > 0.0 && r->floor_ns < 1e18 ? r->floor_ns : 0.0,
        .failure = ""};
    if (r->timed)
        t.samples = r->samples;
    else
        t.failure = failure_of(report, *r->outcome ? r->outcome : "not timed", said);
    const double calls = r->calls_per_sample < 1000000 ? (double)r->calls_per_sample : 1.0;
    for (size_t i = 0; i < t.samples.count; i++)
        report->files[file].timed_seconds += 1e-9 * t.samples.values[i] * calls;
    return lab_report_add_timing(report, &t, &problem, why);
}

bool lab_report_read_bench(lab_report *report, size_t file, lab_message *why) {
    lab_report_file *f = &report->files[file];
    if (!lab_results_of(&f->bench, f->document, f->name, why) ||
        !read_machine(report, f, why) || !read_discards(report, f, why) ||
        !read_sensor(report, f, "clocks_mhz", "clocks seen", "MHz", why) ||
        !read_sensor(report, f, "power_w", "power seen", "W", why) ||
        !read_sensor(report, f, "temperature_c", "temperature seen", "°C", why))
        return false;
    const lab_node root = lab_node_root(f->name, f->document);
    const lab_node results = lab_node_member(&root, "results");
    const lab_node check = lab_node_member(&root, "self_check");
    if (check.value && !lab_report_read_check(report, file, &check, why))
        return false;
    for (size_t i = 0; i < f->bench.count; i++) {
        const lab_node place = lab_node_element(&results, i);
        if (!read_result(report, file, &place, &f->bench.results[i], why))
            return false;
    }
    return lab_report_read_baseline(report, file, why);
}

/* ------------------------------------------------------------------------ ablation */

static bool read_variant(lab_report *report, const lab_node *place, lab_report_variant *v,
                         lab_message *why) {
    *v = (lab_report_variant){.outcome = "pass"};
    if (!lab_node_is_object(place, why) || !lab_node_text(place, "name", &v->name, why) ||
        !lab_node_text(place, "kind", &v->kind, why) ||
        !lab_node_text_maybe(place, "outcome", &v->outcome, why))
        return false;
    const lab_node samples = lab_node_member(place, "samples_ns");
    if (json_array_size(samples.value) == 0)
        return true; /* a variant that failed has no times */
    return lab_report_samples(report, place, "samples_ns", &v->samples, why) &&
           lab_summarise_samples(&v->ns, &v->samples, 0, why);
}

/* The name of the device, wherever its harness stored it. */
bool lab_report_read_device(lab_report_file *file, const lab_node *root, lab_message *why) {
    const lab_node machine = lab_node_member(root, "machine");
    const lab_node gpu = lab_node_member(&machine, "gpu");
    return lab_node_text_maybe(&machine, "processor", &file->device, why) &&
           lab_node_text_maybe(&gpu, "name", &file->device, why);
}

/* A problem is its line, or an object that contains it. */
bool lab_report_read_problem(const lab_node *root, const char **line, lab_message *why) {
    const lab_node problem = lab_node_member(root, "problem");
    return json_is_object(problem.value) ? lab_node_text(&problem, "spec", line, why)
                                         : lab_node_text(root, "problem", line, why);
}

bool lab_report_read_ablation(lab_report *report, size_t file, lab_message *why) {
    lab_report_file *f = &report->files[file];
    const lab_node root = lab_node_root(f->name, f->document);
    const lab_node variants = lab_node_member(&root, "variants");
    lab_report_ablation *list =
        lab_report_grow(report->ablations, report->ablation_count, sizeof *list, why);
    if (!list)
        return false;
    report->ablations = list;
    lab_report_ablation *a = &list[report->ablation_count];
    *a = (lab_report_ablation){.file = file};
    const char *compiler = "";
    if (!lab_report_read_device(f, &root, why) ||
        !lab_node_text_maybe(&root, "compiler", &compiler, why) ||
        !lab_node_text(&root, "kernel", &a->kernel, why) ||
        !lab_report_read_problem(&root, &a->problem, why) || !lab_node_is_array(&variants, why))
        return false;
    lab_report_fact_add(f, "compiler", compiler);
    const size_t count = json_array_size(variants.value);
    a->variants = calloc(count ? count : 1, sizeof *a->variants);
    if (!a->variants)
        return lab_fail(why, "%s: no memory for %zu variants", f->name, count);
    report->ablation_count++;
    for (size_t i = 0; i < count; i++) {
        const lab_node place = lab_node_element(&variants, i);
        if (!read_variant(report, &place, &a->variants[i], why))
            return false;
        a->variant_count++;
        for (size_t k = 0; k < a->variants[i].samples.count; k++)
            f->timed_seconds += 1e-9 * a->variants[i].samples.values[k];
    }
    return true;
}

/* --------------------------------------------------------------- peaks, attestations */

bool lab_report_read_peaks(lab_report *report, size_t file, lab_message *why) {
    lab_report_file *f = &report->files[file];
    const lab_node root = lab_node_root(f->name, f->document);
    const lab_node device = lab_node_member(&root, "device");
    static const struct {
        const char *field, *name, *unit;
        double scale;
    } rates[] = {{"read_bytes", "memory, reads", "TB/s", 1e-12},
                 {"copy_bytes", "memory, a copy", "TB/s", 1e-12},
                 {"exp_per_clock_sm", "exponentials per clock and multiprocessor", "", 1.0},
                 {"memory_clocks", "latency of memory", "clocks", 1.0},
                 {"l2_clocks", "latency of the second-level cache", "clocks", 1.0}};
    if (!lab_node_is_object(&device, why) || !lab_node_text(&device, "name", &f->device, why))
        return false;
    const lab_node products = lab_node_member(&root, "mma_flops");
    double best = 0.0;
    const char *name;
    json_t *ignored;
    json_object_foreach(products.value, name, ignored) {
        double rate = 0.0;
        if (!lab_node_number(&products, name, &rate, why))
            return false;
        best = rate > best ? rate : best;
    }
    if (best > 0.0)
        lab_report_fact_add(f, "tensor cores, mma.sync",
                            lab_report_text(report, "%.4g TFLOP/s", 1e-12 * best));
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        double rate = 0.0;
        if (!lab_node_number_maybe(&root, rates[i].field, &rate, why))
            return false;
        if (rate > 0.0)
            lab_report_fact_add(f, rates[i].name,
                                lab_report_text(report, "%.4g%s%s", rates[i].scale * rate,
                                                *rates[i].unit ? " " : "", rates[i].unit));
    }
    return true;
}

bool lab_report_read_statement(lab_report *report, size_t file, lab_message *why) {
    lab_report_file *f = &report->files[file];
    const lab_node root = lab_node_root(f->name, f->document);
    const lab_node subjects = lab_node_member(&root, "subject");
    const lab_node predicate = lab_node_member(&root, "predicate");
    const char *type = "";
    if (!lab_node_text(&root, "predicateType", &type, why) ||
        !lab_node_is_object(&predicate, why) ||
        !lab_node_text_maybe(&predicate, "kernel", &f->kernel, why) ||
        !lab_report_read_device(f, &predicate, why) || !lab_node_is_array(&subjects, why))
        return false;
    const lab_node verified = lab_node_member(&predicate, "verified"),
                   timed = lab_node_member(&predicate, "timed");
    f->verified = json_array_size(verified.value);
    f->timed = json_array_size(timed.value);
    for (size_t i = 0; i < json_array_size(subjects.value); i++) {
        const lab_node subject = lab_node_element(&subjects, i);
        const lab_node digest = lab_node_member(&subject, "digest");
        const char *name = "", *sha256 = "";
        if (!lab_node_is_object(&subject, why) ||
            !lab_node_text(&subject, "name", &name, why) || !lab_node_is_object(&digest, why) ||
            !lab_node_text(&digest, "sha256", &sha256, why))
            return false;
        lab_report_fact_add(f, lab_report_text(report, "%.80s", name), sha256);
    }
    return true;
}
