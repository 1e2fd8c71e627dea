/* json.c: building and writing JSON documents with jansson. */
#include "lab/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/utsname.h>

#include "lab/clock.h"
#include "lab/machine.h"
#include "lab/spec_names.h"

json_t *lab_json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *lab_json_numbers(const double *values, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++)
        json_array_append_new(array, lab_json_number(values[i]));
    return array;
}

json_t *lab_json_machine(const att_context *ctx) {
    att_context_info info = {.size = sizeof info};
    struct utsname os;
    if (!ctx || att_context_query(ctx, &info) != ATT_OK || uname(&os) != 0)
        return json_null();
    json_t *machine =
        json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:s}", "processor", info.name, "device",
                  lab_device_name(info.device), "threads", (int)info.threads, "isa",
                  lab_isa_name(info.isa), "isa_machine", lab_isa_name(info.isa_machine), "os",
                  os.sysname, "os_release", os.release);
    if (machine && info.device == ATT_DEVICE_CUDA)
        json_object_set_new(machine, "gpu", lab_json_gpu(&info));
    return machine;
}

json_t *lab_json_gpu(const att_context_info *info) {
    return json_pack("{s:i, s:s, s:s, s:i, s:i, s:I, s:i}", "index", (int)info->device_index,
                     "name", info->gpu_name, "uuid", info->gpu_uuid, "compute_capability",
                     (int)info->compute_capability, "multiprocessors",
                     (int)info->multiprocessors, "memory_bytes", (json_int_t)info->memory_bytes,
                     "driver_version", (int)info->driver_version);
}

json_t *lab_json_document(const char *schema, const att_context *ctx) {
    char made[32];
    lab_clock_utc(made, sizeof made);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "schema", schema, "made", made, "attest",
                     att_version(), "compiler", lab_compiler(), "machine",
                     lab_json_machine(ctx));
}

json_t *lab_json_shape(const att_problem *p) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "batch",
                     (json_int_t)p->batch, "heads_q", (json_int_t)p->heads_q, "heads_kv",
                     (json_int_t)p->heads_kv, "seq_q", (json_int_t)p->seq_q, "seq_k",
                     (json_int_t)p->seq_k, "d_qk", (json_int_t)p->d_qk, "d_v",
                     (json_int_t)p->d_v, "dtype", lab_name_of(lab_dtype_names, (int)p->dtype),
                     "dtype_o", lab_name_of(lab_dtype_names, (int)p->dtype_o));
}

json_t *lab_json_problem(const lab_spec *spec) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    json_t *object = lab_json_shape(&spec->problem);
    json_object_set_new(object, "spec", json_string(line));
    return object;
}

static json_t *errors_object(const lab_errors *errors) {
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o}", "kernel", lab_json_number(errors->kernel), "plain",
        lab_json_number(errors->plain), "bar", lab_json_number(errors->bar), "kernel_rms",
        lab_json_number(errors->kernel_rms), "plain_rms", lab_json_number(errors->plain_rms),
        "bar_rms", lab_json_number(errors->bar_rms));
}

static const char *outcome_name(lab_outcome outcome) {
    switch (outcome) {
    case LAB_PASS:
        return "pass";
    case LAB_FAIL:
        return "fail";
    case LAB_REFUSED:
        return "refused";
    }
    return "unknown";
}

json_t *lab_json_verify(const lab_verify_result *result) {
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:I, s:s}", "outcome",
                     outcome_name(result->outcome), "status", att_status_name(result->status),
                     "kernel", result->kernel, "launch", lab_json_launch(&result->launch),
                     "error_o", errors_object(&result->o), "error_lse",
                     errors_object(&result->lse), "rows_checked",
                     (json_int_t)result->rows_checked, "rows_total",
                     (json_int_t)result->rows_total, "message", result->message);
}

json_t *lab_json_subject(const lab_subject *subject) {
    return lab_subject_is_attest(subject)
               ? json_string(subject->name)
               : json_sprintf("%s %s", subject->name, subject->version);
}

json_t *lab_json_launch(const att_launch *launch) {
    const uint32_t *grid = launch->grid, *block = launch->block;
    return json_pack("{s:s, s:[I,I,I], s:[I,I,I], s:I, s:I, s:s}", "kernel",
                     launch->kernel ? launch->kernel : "", "grid", (json_int_t)grid[0],
                     (json_int_t)grid[1], (json_int_t)grid[2], "block", (json_int_t)block[0],
                     (json_int_t)block[1], (json_int_t)block[2], "shared_bytes",
                     (json_int_t)launch->shared_bytes, "registers",
                     (json_int_t)launch->registers, "code_sha256", launch->code_sha256);
}

bool lab_json_write(json_t *document, FILE *stream, lab_message *why) {
    if (!document)
        return lab_fail(why, "no memory for the JSON document");
    errno = 0;
    const bool ok =
        json_dumpf(document, stream, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) == 0 &&
        fputc('\n', stream) != EOF && fflush(stream) == 0;
    const int code = errno;
    json_decref(document);
    return ok || lab_fail(why, "the JSON document cannot be written: %s",
                          code ? strerror(code) : "out of memory");
}
