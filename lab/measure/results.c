/* results.c: reads attest-bench-1 and attest-bench-2. */
#include "lab/measure/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json_load.h"
#include "lab/base/json_node.h"

/* One number per sample from `name`; if it is missing, zeros or 0, 1, 2, ... */
static uint32_t *read_indices(const lab_node *result, const char *name, size_t count,
                              bool counted, lab_message *why) {
    const lab_node array = lab_node_member(result, name);
    if (array.value && json_array_size(array.value) != count) {
        lab_node_fail(&array, "is not an array as long as samples_ns", why);
        return NULL;
    }
    uint32_t *indices = malloc(count * sizeof *indices);
    if (!indices)
        lab_node_fail(result, "no memory for its samples", why);
    for (size_t i = 0; indices && i < count; i++) {
        const json_t *value = json_array_get(array.value, i);
        const json_int_t index = value     ? json_integer_value(value)
                                 : counted ? (json_int_t)i
                                           : 0;
        indices[i] = (uint32_t)index;
        if ((value && !json_is_integer(value)) || index < 0 || index > UINT32_MAX) {
            const lab_node element = lab_node_element(&array, i);
            lab_node_fail(&element, "expected a whole number, 0 or more", why);
            free(indices);
            return NULL;
        }
    }
    return indices;
}

static bool check_order(const lab_samples *s, const lab_node *result, lab_message *why) {
    const lab_node process = lab_node_member(result, "process"),
                   round = lab_node_member(result, "round");
    for (size_t i = 1; i < s->count; i++) {
        if (s->process[i] < s->process[i - 1])
            return lab_node_fail(&process, "is not in ascending order", why);
        if (s->process[i] == s->process[i - 1] && s->round[i] <= s->round[i - 1])
            return lab_node_fail(&round, "does not ascend within a process", why);
    }
    return true;
}

static bool read_samples(lab_samples *s, const lab_node *result, lab_message *why) {
    double *values;
    const bool ok = lab_node_times(result, "samples_ns", &values, &s->count, why);
    s->values = values;
    return ok && (s->process = read_indices(result, "process", s->count, false, why)) != NULL &&
           (s->round = read_indices(result, "round", s->count, true, why)) != NULL &&
           check_order(s, result, why);
}

/* Compute the fields that a file of raw samples lacks: its writer takes samples and computes
 * nothing. */
static bool summarise(lab_result *r, const lab_node *result, lab_message *why) {
    lab_summary summary;
    lab_message reason;
    if (!lab_summarise_samples(&summary, &r->samples, 0, &reason))
        return lab_node_fail(result, reason.text, why);
    r->median_ns = summary.median;
    r->low_ns = summary.low;
    r->high_ns = summary.high;
    r->spread_percent = summary.spread_percent;
    r->gflops = r->flops / summary.median;
    return true;
}

/* What was measured, by which subject, and the outcome of its verification. */
static bool read_subject(lab_result *r, const lab_node *result, lab_message *why) {
    lab_node problem, verify, launch;
    json_int_t threads = 0;
    if (!lab_node_object_maybe(result, "problem", &problem, why) ||
        !lab_node_text(&problem, "spec", &r->problem, why) ||
        !lab_node_object_maybe(result, "verify", &verify, why) ||
        !lab_node_object_maybe(result, "launch", &launch, why) ||
        !lab_node_text_maybe(&verify, "kernel", &r->kernel, why) ||
        !lab_node_text_maybe(result, "kernel", &r->kernel, why) ||
        !lab_node_text_maybe(result, "subject", &r->subject, why) ||
        !lab_node_text_maybe(result, "isa", &r->isa, why) ||
        !lab_node_text_maybe(result, "mode", &r->mode, why) ||
        !lab_node_text_maybe(result, "timer", &r->timer, why) ||
        !lab_node_text_maybe(&launch, "code_sha256", &r->code_sha256, why) ||
        !lab_node_text_maybe(&verify, "outcome", &r->outcome, why) ||
        !lab_node_count_maybe(result, "threads", &threads, why))
        return false;
    r->threads = (int)threads;
    return *r->problem || lab_node_fail(&problem, "spec is empty", why);
}

static bool read_times(lab_result *r, const lab_node *result, lab_message *why) {
    json_int_t calls = 0, discarded = 0, capped = 0;
    lab_node thrown;
    const bool summed = json_object_get(result->value, "median_ns") != NULL;
    if ((summed && !lab_node_time(result, "median_ns", &r->median_ns, why)) ||
        !lab_node_number_maybe(result, "low_ns", &r->low_ns, why) ||
        !lab_node_number_maybe(result, "high_ns", &r->high_ns, why) ||
        !lab_node_number_maybe(result, "spread_percent", &r->spread_percent, why) ||
        !lab_node_number_maybe(result, "gflops", &r->gflops, why) ||
        !lab_node_number_maybe(result, "floor_ns", &r->floor_ns, why) ||
        !lab_node_count_maybe(result, "calls_per_sample", &calls, why) ||
        !lab_node_object_maybe(result, "discarded", &thrown, why) ||
        !lab_node_count_maybe(&thrown, "count", &discarded, why) ||
        !lab_node_count_maybe(result, "power_capped", &capped, why))
        return false;
    r->calls_per_sample = (size_t)calls;
    r->discarded = (size_t)discarded;
    r->power_capped = (size_t)capped;
    return read_samples(&r->samples, result, why) && (summed || summarise(r, result, why));
}

static bool read_result(lab_result *r, const lab_node *result, bool gpu, lab_message *why) {
    *r = (lab_result){.object = result->value,
                      .problem = "",
                      .subject = "attest",
                      .kernel = "",
                      .isa = "",
                      .mode = "warm",
                      .timer = gpu ? "graph" : "cpu",
                      .code_sha256 = "",
                      .outcome = ""};
    return lab_node_is_object(result, why) && read_subject(r, result, why) &&
           lab_node_flag_maybe(result, "timed", &r->timed, why) &&
           lab_node_number_maybe(result, "flops", &r->flops, why) &&
           (!r->timed || read_times(r, result, why));
}

/* The driver as recorded in -2, or the CUDA version that -1 has. */
static bool read_driver(lab_results *out, const lab_node *machine, const lab_node *gpu,
                        lab_message *why) {
    json_int_t version = 0;
    const char *driver = NULL;
    if (!lab_node_count_maybe(gpu, "driver_version", &version, why) ||
        !lab_node_text_maybe(machine, "driver", &driver, why))
        return false;
    if (driver)
        snprintf(out->driver, sizeof out->driver, "%s", driver);
    else if (version > 0)
        snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", (int)version / 1000,
                 (int)version % 1000 / 10);
    return true;
}

static bool read_head(lab_results *out, const lab_node *document, lab_message *why) {
    lab_node machine, gpu;
    out->attest = out->compiler = out->processor = out->device = out->gpu = out->gpu_uuid = "";
    return lab_node_is_object(document, why) &&
           lab_node_text(document, "schema", &out->schema, why) &&
           lab_node_text_maybe(document, "attest", &out->attest, why) &&
           lab_node_text_maybe(document, "compiler", &out->compiler, why) &&
           lab_node_number_maybe(document, "device_seconds", &out->device_seconds, why) &&
           lab_node_number_maybe(document, "minimum_effect", &out->minimum_effect, why) &&
           lab_node_object_maybe(document, "machine", &machine, why) &&
           lab_node_text_maybe(&machine, "processor", &out->processor, why) &&
           lab_node_text_maybe(&machine, "device", &out->device, why) &&
           lab_node_object_maybe(&machine, "gpu", &gpu, why) &&
           lab_node_text_maybe(&gpu, "name", &out->gpu, why) &&
           lab_node_text_maybe(&gpu, "uuid", &out->gpu_uuid, why) &&
           read_driver(out, &machine, &gpu, why);
}

static bool read_document(lab_results *out, const char *name, lab_message *why) {
    const lab_node document = lab_node_root(name, out->document);
    if (!read_head(out, &document, why))
        return false;
    if (strcmp(out->schema, "attest-bench-1") != 0 &&
        strcmp(out->schema, "attest-bench-2") != 0)
        return lab_fail(why, "%s: schema: is \"%s\", not attest-bench-1 or attest-bench-2",
                        name, out->schema);
    const lab_node results = lab_node_member(&document, "results");
    const size_t count = json_array_size(results.value);
    if (!lab_node_is_array(&results, why))
        return false;
    out->results = calloc(count ? count : 1, sizeof *out->results);
    if (!out->results)
        return lab_fail(why, "%s: no memory for %zu results", name, count);
    for (size_t i = 0; i < count; i++) {
        const lab_node result = lab_node_element(&results, i);
        out->count++;
        if (!read_result(&out->results[i], &result, strcmp(out->device, "cuda") == 0, why))
            return false;
    }
    return true;
}

bool lab_results_of(lab_results *out, json_t *document, const char *name, lab_message *why) {
    *out = (lab_results){.document = json_incref(document)};
    if (read_document(out, name, why))
        return true;
    lab_results_free(out);
    return false;
}

bool lab_results_read(lab_results *out, const char *path, lab_message *why) {
    *out = (lab_results){0};
    json_t *document = lab_json_load(path, why);
    if (!document)
        return false;
    const bool ok = lab_results_of(out, document, path, why);
    json_decref(document);
    return ok;
}

/* This file owns the arrays of a result; readers see them as const. */
static void free_array(const void *array) {
    union {
        const void *seen;
        void *owned;
    } pointer = {.seen = array};
    free(pointer.owned);
}

void lab_results_free(lab_results *results) {
    for (size_t i = 0; i < results->count; i++) {
        const lab_samples *s = &results->results[i].samples;
        free_array(s->values);
        free_array(s->process);
        free_array(s->round);
    }
    free(results->results);
    json_decref(results->document);
    *results = (lab_results){0};
}
