/* predicate.c: the parts of the predicate. */
#include "lab/evidence/predicate.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/clock.h"
#include "lab/base/json.h"
#include "lab/base/machine.h"
#include "lab/problem/problem_json.h"
#include "lab/verify/verify_json.h"

/* Variables that are allowed but that a reader may want to know. */
static json_t *environment(void) {
    static const char *const names[] = {"LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES",
                                        "CUDA_MODULE_LOADING", "ATTEST_AMX_F32",
                                        "ATTEST_THREADS"};
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            json_object_set_new(object, names[i], json_string(value));
    }
    return object;
}

json_t *lab_predicate_machine(const att_context *ctx) {
    att_context_info info = {.size = sizeof info};
    json_t *machine = lab_json_machine(ctx);
    char driver[80];
    if (att_context_query(ctx, &info) != ATT_OK || info.device != ATT_DEVICE_CUDA)
        return machine;
    lab_nvml *nvml = lab_nvml_open(info.gpu_uuid, NULL);
    if (nvml && lab_nvml_driver(nvml, driver, sizeof driver))
        json_object_set_new(machine, "driver", json_string(driver));
    lab_nvml_close(nvml);
    return machine;
}

/* SHA-256 of the program file, computed once; "" if the system does not show it. */
static char program[ATT_SHA256_HEX];

static void digest_program(void) {
    lab_file_digest("/proc/self/exe", program);
}

json_t *lab_predicate_make(const lab_certify *job, const char *id, const char *role,
                           const att_context *ctx, const lab_code_digests *digests) {
    static pthread_once_t digested = PTHREAD_ONCE_INIT;
    char made[32];
    lab_clock_utc(made, sizeof made);
    pthread_once(&digested, digest_program);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:{s:s, s:s, s:s, s:s}, s:{s:s, s:s, s:s}, s:{s:s, s:s}, "
        "s:I, s:o}",
        "kernel", id, "role", role, "made", made, "attest", att_version(), "machine",
        lab_predicate_machine(ctx), "compiler", "name", digests->compiler, "flags",
        digests->flags, "options", *digests->code ? lab_built_nvcc : lab_built_flags, "host",
        lab_compiler(), "harness", "judge_sha256", lab_built_digest("judge"), "clock_sha256",
        lab_built_digest("clock"), "program_sha256", program, "suites", "verified",
        job->checked_name, "timed", job->timed_name, "seed", (json_int_t)job->bench.seed,
        "environment", environment());
}

static json_t *error_object(const lab_errors *errors) {
    return json_pack("{s:o, s:o, s:o, s:o}", "kernel", lab_json_number(errors->kernel), "plain",
                     lab_json_number(errors->plain), "largest",
                     lab_json_number(errors->largest), "bar", lab_json_number(errors->bar));
}

static json_t *launch_object(const att_launch *launch) {
    return json_pack("{s:s, s:[I,I,I], s:s}", "kernel", launch->kernel ? launch->kernel : "",
                     "grid", (json_int_t)launch->grid[0], (json_int_t)launch->grid[1],
                     (json_int_t)launch->grid[2], "code_sha256", launch->code_sha256);
}

/* A statement has hundreds of these, so they hold only what the check needs. */
json_t *lab_predicate_checked(const lab_spec *spec, const lab_verify_result *result) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    json_t *verify =
        json_pack("{s:s}", "outcome", result->outcome == LAB_PASS ? "pass" : "fail");
    lab_json_errors(verify, result, error_object);
    json_t *rows = json_pack(
        "{s:I, s:I, s:I}", "rows_checked", (json_int_t)result->rows_checked, "rows_total",
        (json_int_t)result->rows_total, "rows_seed", (json_int_t)result->rows_seed);
    json_object_update_new(verify, rows);
    return json_pack("{s:s, s:o, s:o}", "problem", line, "launch",
                     launch_object(&result->launch), "verify", verify);
}

/* One field of every reading. */
static json_t *readings_array(const lab_bench_case *timed, size_t field) {
    json_t *array = json_array();
    for (size_t i = 0; i < timed->sample_count; i++) {
        const char *reading = (const char *)&timed->readings[i];
        json_array_append_new(array, lab_json_number(*(const double *)(reading + field)));
    }
    return array;
}

json_t *lab_predicate_timed(const lab_bench_case *timed) {
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o}", "problem",
        lab_json_problem(timed->spec), "verify", lab_json_verify(&timed->verify), "launch",
        lab_json_launch(&timed->launch), "median_ns", lab_json_number(timed->ns.median),
        "low_ns", lab_json_number(timed->ns.low), "high_ns", lab_json_number(timed->ns.high),
        "floor_ns", lab_json_number(timed->floor_ns), "calls_per_sample",
        (json_int_t)timed->calls_per_sample, "discarded", (json_int_t)timed->discarded,
        "power_capped", (json_int_t)timed->power_capped, "samples_ns",
        lab_json_numbers(timed->samples_ns, timed->sample_count));
    if (!timed->readings)
        return object;
    json_object_set_new(object, "clocks_mhz",
                        readings_array(timed, offsetof(lab_gpu_reading, clock_mhz)));
    json_object_set_new(object, "power_w",
                        readings_array(timed, offsetof(lab_gpu_reading, power_w)));
    json_object_set_new(object, "temperature_c",
                        readings_array(timed, offsetof(lab_gpu_reading, temperature_c)));
    return object;
}
