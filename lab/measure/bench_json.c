/* bench_json.c: writes attest-bench-2 and adds the samples of other processes to a case. */
#include "lab/measure/bench_json.h"

#include <math.h>
#include <string.h>

#include "lab/base/json.h"
#include "lab/base/machine.h"
#include "lab/measure/nvml.h"
#include "lab/problem/problem_json.h"
#include "lab/verify/verify_json.h"

/* ------------------------------------------------------------------------ one result */

static json_t *integers(const uint32_t *values, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++)
        json_array_append_new(array, json_integer((json_int_t)values[i]));
    return array;
}

/* The arrays of readings, and the offset of each in a reading. */
static const struct {
    const char *key;
    size_t offset;
} fields[] = {{"clocks_mhz", offsetof(lab_gpu_reading, clock_mhz)},
              {"memory_clocks_mhz", offsetof(lab_gpu_reading, memory_clock_mhz)},
              {"power_w", offsetof(lab_gpu_reading, power_w)},
              {"temperature_c", offsetof(lab_gpu_reading, temperature_c)}};
enum { FIELDS = sizeof fields / sizeof fields[0] };

/* One field of every reading; null if it is unknown. */
static json_t *readings(const lab_bench_case *c, size_t offset) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < c->sample_count; i++) {
        double value;
        memcpy(&value, (const char *)&c->readings[i] + offset, sizeof value);
        json_array_append_new(array, lab_json_number(value));
    }
    return array;
}

static void set_readings(json_t *object, const lab_bench_case *c) {
    for (size_t i = 0; c->readings && i < FIELDS; i++)
        json_object_set_new(object, fields[i].key, readings(c, fields[i].offset));
}

static const char *timer_of(const lab_bench_case *c, const lab_bench_options *options) {
    att_context_info info = {.size = sizeof info};
    const bool gpu =
        att_context_query(c->subject.ctx, &info) == ATT_OK && info.device == ATT_DEVICE_CUDA;
    return gpu ? lab_timer_name(options->timer) : "cpu";
}

/* The additional fields of a timed result. */
static void set_times(json_t *object, const lab_bench_case *c) {
    const lab_summary *s = &c->ns;
    char reasons[128];
    lab_slow_reasons(c->discarded_for, reasons, sizeof reasons);
    const char *kernel =
        lab_subject_is_attest(&c->subject) ? c->launch.kernel : c->subject.name;
    json_object_set_new(object, "kernel", kernel ? json_string(kernel) : json_null());
    json_object_set_new(object, "launch", lab_json_launch(&c->launch));
    json_object_set_new(object, "median_ns", lab_json_number(s->median));
    json_object_set_new(object, "low_ns", lab_json_number(s->low));
    json_object_set_new(object, "high_ns", lab_json_number(s->high));
    json_object_set_new(object, "spread_percent", lab_json_number(s->spread_percent));
    json_object_set_new(object, "gflops", lab_json_number(lab_bench_gflops(c, s->median)));
    if (c->floor_ns > 0.0)
        json_object_set_new(object, "floor_ns", lab_json_number(c->floor_ns));
    json_object_set_new(object, "calls_per_sample",
                        json_integer((json_int_t)c->calls_per_sample));
    const lab_graph_nodes *n = &c->nodes;
    if (n->kernels + n->copies + n->fills + n->others > 0)
        json_object_set_new(object, "graph_nodes",
                            json_pack("{s:I, s:I, s:I, s:I}", "kernels", (json_int_t)n->kernels,
                                      "copies", (json_int_t)n->copies, "fills",
                                      (json_int_t)n->fills, "others", (json_int_t)n->others));
    if (c->slowdown > 0.0)
        json_object_set_new(object, "extra_calls", json_integer((json_int_t)c->extra_calls));
    json_object_set_new(object, "input_sets", json_integer((json_int_t)c->input_sets));
    json_object_set_new(object, "outliers",
                        json_pack("{s:I, s:I}", "below", (json_int_t)s->outliers_below, "above",
                                  (json_int_t)s->outliers_above));
    json_object_set_new(
        object, "discarded",
        json_pack("{s:I, s:s}", "count", (json_int_t)c->discarded, "reasons", reasons));
    json_object_set_new(object, "power_capped", json_integer((json_int_t)c->power_capped));
    json_object_set_new(object, "samples_ns", lab_json_numbers(c->samples_ns, c->sample_count));
    json_object_set_new(object, "process", integers(c->process, c->sample_count));
    json_object_set_new(object, "round", integers(c->round, c->sample_count));
    set_readings(object, c);
}

json_t *lab_json_bench_case(const lab_bench_case *c, const lab_bench_options *options) {
    att_context_info info = {.size = sizeof info};
    att_context_query(c->subject.ctx, &info);
    json_t *object = json_pack(
        "{s:o, s:o, s:s, s:i, s:s, s:s, s:o, s:b, s:o}", "problem", lab_json_problem(c->spec),
        "subject", lab_json_subject(&c->subject), "isa", lab_isa_name(info.isa), "threads",
        (int)info.threads, "mode", options->mode == LAB_COLD ? "cold" : "warm", "timer",
        timer_of(c, options), "verify", lab_json_verify(&c->verify), "timed", c->timed, "flops",
        lab_json_number(c->flops));
    if (object && c->timed)
        set_times(object, c);
    return object;
}

/* ---------------------------------------------------------------------- the document */

/* The driver of the context's GPU: its version from NVML if available, else the CUDA version
 * that it supports. */
static void set_driver(json_t *document, const att_context *ctx) {
    att_context_info info = {.size = sizeof info};
    char text[64];
    if (!ctx || att_context_query(ctx, &info) != ATT_OK || info.device != ATT_DEVICE_CUDA)
        return;
    lab_nvml *nvml = lab_nvml_open(info.gpu_uuid, NULL);
    if (!nvml || !lab_nvml_driver(nvml, text, sizeof text))
        snprintf(text, sizeof text, "CUDA %d.%d", info.driver_version / 1000,
                 info.driver_version % 1000 / 10);
    lab_nvml_close(nvml);
    json_object_set_new(json_object_get(document, "machine"), "driver", json_string(text));
}

json_t *lab_json_bench_document(const att_context *ctx, const lab_bench_options *o) {
    json_t *document = lab_json_document("attest-bench-2", ctx);
    set_driver(document, ctx);
    json_object_set_new(
        document, "options",
        json_pack("{s:I, s:I, s:I, s:f, s:f, s:s, s:s}", "seed", (json_int_t)o->seed,
                  "min_samples", (json_int_t)o->min_samples, "max_samples",
                  (json_int_t)o->max_samples, "seconds", o->seconds, "precision_percent",
                  100.0 * o->precision, "mode", o->mode == LAB_COLD ? "cold" : "warm", "timer",
                  lab_timer_name(o->timer)));
    json_object_set_new(document, "results", json_array());
    return document;
}

json_t *lab_json_verdict(const lab_verdict *v) {
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "verdict", lab_verdict_name(v->kind),
        "effect", lab_json_number(v->effect), "low", lab_json_number(v->low), "high",
        lab_json_number(v->high), "p_different", lab_json_number(v->p_different), "p_not_same",
        lab_json_number(v->p_not_same), "minimum_effect", lab_json_number(v->minimum_effect),
        "shuffled", v->by_process ? "processes" : "samples");
}

/* --------------------------------------------------------------------------- merging */

static bool same_case(const lab_bench_case *c, const lab_result *other) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(c->spec, line, sizeof line);
    const char *kernel =
        lab_subject_is_attest(&c->subject) ? c->launch.kernel : c->subject.name;
    return strcmp(line, other->problem) == 0 &&
           strcmp(kernel ? kernel : "", other->kernel) == 0;
}

/* The readings of the other result's samples, from its arrays. */
static void take_readings(lab_gpu_reading *to, const lab_result *other) {
    for (size_t f = 0; f < FIELDS; f++) {
        const json_t *array = json_object_get(other->object, fields[f].key);
        for (size_t i = 0; i < other->samples.count; i++) {
            const json_t *told = json_array_get(array, i);
            const double value = json_is_number(told) ? json_number_value(told) : (double)NAN;
            memcpy((char *)&to[i] + fields[f].offset, &value, sizeof value);
        }
    }
}

static bool append(lab_bench_case *c, const lab_result *other, uint32_t process) {
    const size_t before = c->sample_count, count = before + other->samples.count;
    if (!lab_bench_reserve(c, count, c->readings != NULL))
        return false;
    for (size_t i = before; i < count; i++) {
        c->samples_ns[i] = other->samples.values[i - before];
        c->process[i] = process;
        c->round[i] = other->samples.round[i - before];
    }
    if (c->readings) {
        memset(c->readings + before, 0, other->samples.count * sizeof *c->readings);
        take_readings(c->readings + before, other);
    }
    c->sample_count = count;
    return true;
}

bool lab_bench_merge(lab_bench_case *c, const lab_result *other, uint32_t process,
                     uint64_t seed, lab_message *why) {
    if (!c->timed)
        return true;
    if (!other->timed) {
        const json_t *verify = json_object_get(other->object, "verify");
        const char *text = json_string_value(json_object_get(verify, "message"));
        c->timed = false;
        c->verify.outcome = LAB_FAIL;
        snprintf(c->verify.message, sizeof c->verify.message, "in process %u: %s", process,
                 text ? text : "not timed");
        return true;
    }
    if (!same_case(c, other))
        return lab_fail(why, "process %u timed %s by %s where another problem stands here",
                        process, other->problem, other->kernel);
    if (!append(c, other, process))
        return lab_fail(why, "no memory for the samples of process %u", process);
    c->discarded += other->discarded;
    c->power_capped += other->power_capped;
    const lab_samples all = lab_bench_samples(c);
    return lab_summarise_samples(&c->ns, &all, seed, why);
}
