/* verify_json.c: outcomes, errors and launches as JSON. */
#include "lab/verify/verify_json.h"

#include <stdio.h>

#include "lab/base/json.h"

static json_t *errors_object(const lab_errors *errors) {
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "kernel", lab_json_number(errors->kernel),
        "plain", lab_json_number(errors->plain), "largest", lab_json_number(errors->largest),
        "bar", lab_json_number(errors->bar), "kernel_rms", lab_json_number(errors->kernel_rms),
        "plain_rms", lab_json_number(errors->plain_rms), "bar_rms",
        lab_json_number(errors->bar_rms));
}

void lab_json_errors(json_t *json, const lab_verify_result *result,
                     json_t *(*object)(const lab_errors *errors)) {
    for (int i = 0; i < result->outputs; i++) {
        char name[32];
        snprintf(name, sizeof name, "error_%s", result->error[i].name);
        json_object_set_new(json, name, object(&result->error[i]));
    }
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
    json_t *json = json_pack("{s:s, s:s, s:s, s:o}", "outcome", outcome_name(result->outcome),
                             "status", att_status_name(result->status), "kernel",
                             result->kernel, "launch", lab_json_launch(&result->launch));
    lab_json_errors(json, result, errors_object);
    json_t *rest =
        json_pack("{s:I, s:I, s:I, s:s}", "rows_checked", (json_int_t)result->rows_checked,
                  "rows_total", (json_int_t)result->rows_total, "rows_seed",
                  (json_int_t)result->rows_seed, "message", result->message);
    json_object_update_new(json, rest);
    return json;
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
