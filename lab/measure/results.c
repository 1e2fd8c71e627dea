/* results.c: reading of attest-bench-1 and attest-bench-2. */
#include "lab/measure/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json_load.h"

static const char *text_of(const json_t *object, const char *key, const char *otherwise) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

static double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* What a result is named by in messages. */
typedef struct place {
    const char *file;
    size_t index;
} place;

static bool fail_at(place at, lab_message *why, const char *text) {
    return lab_fail(why, "%s: results[%zu]: %s", at.file, at.index, text);
}

static bool read_values(lab_result *r, place at, lab_message *why) {
    const json_t *array = json_object_get(r->object, "samples_ns");
    const size_t count = json_array_size(array);
    if (count == 0)
        return fail_at(at, why, "samples_ns is missing or empty");
    double *values = malloc(count * sizeof *values);
    r->samples.values = values;
    if (!values)
        return fail_at(at, why, "no memory for its samples");
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(array, i);
        values[i] = json_number_value(value);
        if (!json_is_number(value) || !(values[i] > 0.0))
            return lab_fail(why, "%s: results[%zu]: samples_ns[%zu] is not a time above zero",
                            at.file, at.index, i);
    }
    r->samples.count = count;
    return true;
}

/* One number a sample: `key`, or where it is missing zeros, or 0, 1, 2, ... */
static uint32_t *read_indices(const lab_result *r, const char *key, bool counted, place at,
                              lab_message *why) {
    const size_t count = r->samples.count;
    const json_t *array = json_object_get(r->object, key);
    if (array && json_array_size(array) != count) {
        lab_fail(why, "%s: results[%zu]: %s and samples_ns differ in length", at.file, at.index,
                 key);
        return NULL;
    }
    uint32_t *indices = malloc(count * sizeof *indices);
    if (!indices)
        fail_at(at, why, "no memory for its samples");
    for (size_t i = 0; indices && i < count; i++) {
        const json_int_t index = array     ? json_integer_value(json_array_get(array, i))
                                 : counted ? (json_int_t)i
                                           : 0;
        indices[i] = index >= 0 && index <= UINT32_MAX ? (uint32_t)index : 0;
    }
    return indices;
}

static bool check_order(const lab_samples *s, place at, lab_message *why) {
    for (size_t i = 1; i < s->count; i++) {
        if (s->process[i] < s->process[i - 1])
            return fail_at(at, why, "process is not in ascending order");
        if (s->process[i] == s->process[i - 1] && s->round[i] <= s->round[i - 1])
            return fail_at(at, why, "round does not ascend within a process");
    }
    return true;
}

static bool read_samples(lab_result *r, place at, lab_message *why) {
    return read_values(r, at, why) &&
           (r->samples.process = read_indices(r, "process", false, at, why)) != NULL &&
           (r->samples.round = read_indices(r, "round", true, at, why)) != NULL &&
           check_order(&r->samples, at, why);
}

/* What a file of raw samples does not say: its writer takes samples and computes nothing. */
static bool summarise(lab_result *r, place at, lab_message *why) {
    lab_summary summary;
    lab_message reason;
    if (!lab_summarise_samples(&summary, &r->samples, 0, &reason))
        return fail_at(at, why, reason.text);
    r->median_ns = summary.median;
    r->low_ns = summary.low;
    r->high_ns = summary.high;
    r->spread_percent = summary.spread_percent;
    r->gflops = r->flops / summary.median;
    return true;
}

static bool read_result(lab_result *r, const json_t *object, bool gpu, place at,
                        lab_message *why) {
    const json_t *verify = json_object_get(object, "verify");
    *r = (lab_result){
        .object = object,
        .problem = text_of(json_object_get(object, "problem"), "spec", ""),
        .subject = text_of(object, "subject", "attest"),
        .kernel = text_of(object, "kernel", text_of(verify, "kernel", "")),
        .isa = text_of(object, "isa", ""),
        .mode = text_of(object, "mode", "warm"),
        .timer = text_of(object, "timer", gpu ? "graph" : "cpu"),
        .code_sha256 = text_of(json_object_get(object, "launch"), "code_sha256", ""),
        .outcome = text_of(verify, "outcome", ""),
        .threads = (int)json_integer_value(json_object_get(object, "threads")),
        .timed = json_is_true(json_object_get(object, "timed")),
        .flops = number_of(object, "flops"),
    };
    if (!json_is_object(object))
        return fail_at(at, why, "is not an object");
    if (!*r->problem)
        return fail_at(at, why, "problem.spec is missing");
    if (!r->timed)
        return true;
    if (json_object_get(object, "median_ns")) {
        r->median_ns = number_of(object, "median_ns");
        r->low_ns = number_of(object, "low_ns");
        r->high_ns = number_of(object, "high_ns");
        r->spread_percent = number_of(object, "spread_percent");
        r->gflops = number_of(object, "gflops");
        if (!(r->median_ns > 0.0))
            return fail_at(at, why, "median_ns is not a time above zero");
    }
    r->floor_ns = number_of(object, "floor_ns");
    r->calls_per_sample =
        (size_t)json_integer_value(json_object_get(object, "calls_per_sample"));
    r->discarded = (size_t)json_integer_value(
        json_object_get(json_object_get(object, "discarded"), "count"));
    return read_samples(r, at, why) && (r->median_ns > 0.0 || summarise(r, at, why));
}

/* The driver as -2 says it, or as the version of CUDA that -1 has. */
static void read_driver(lab_results *out, const json_t *machine) {
    const json_t *gpu = json_object_get(machine, "gpu");
    const int version = (int)json_integer_value(json_object_get(gpu, "driver_version"));
    const char *driver = text_of(machine, "driver", NULL);
    if (driver)
        snprintf(out->driver, sizeof out->driver, "%s", driver);
    else if (version > 0)
        snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", version / 1000,
                 version % 1000 / 10);
}

static bool read_document(lab_results *out, const char *name, lab_message *why) {
    const json_t *document = out->document, *machine = json_object_get(document, "machine");
    const json_t *gpu = json_object_get(machine, "gpu");
    out->schema = text_of(document, "schema", "");
    out->attest = text_of(document, "attest", "");
    out->compiler = text_of(document, "compiler", "");
    out->processor = text_of(machine, "processor", "");
    out->device = text_of(machine, "device", "");
    out->gpu = text_of(gpu, "name", "");
    out->gpu_uuid = text_of(gpu, "uuid", "");
    out->device_seconds = number_of(document, "device_seconds");
    out->minimum_effect = number_of(document, "minimum_effect");
    read_driver(out, machine);
    if (strcmp(out->schema, "attest-bench-1") != 0 &&
        strcmp(out->schema, "attest-bench-2") != 0)
        return lab_fail(why, "%s: schema is \"%s\", not attest-bench-1 or attest-bench-2", name,
                        out->schema);
    const json_t *results = json_object_get(document, "results");
    const size_t count = json_array_size(results);
    if (!json_is_array(results))
        return lab_fail(why, "%s: results is not an array", name);
    out->results = calloc(count ? count : 1, sizeof *out->results);
    if (!out->results)
        return lab_fail(why, "%s: no memory for %zu results", name, count);
    for (size_t i = 0; i < count; i++) {
        out->count++;
        if (!read_result(&out->results[i], json_array_get(results, i),
                         strcmp(out->device, "cuda") == 0, (place){name, i}, why))
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

/* The arrays of a result are this file's own; readers see them as constant. */
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
