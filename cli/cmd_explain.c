/* cmd_explain.c: attest explain. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/explanation.h"
#include "cli/session.h"
#include "lab/plan/plan_choice.h"
#include "lab/plan/plan_result.h"
#include "lab/problem/lab_operation.h"
#include "lab/problem/problem_json.h"

/* The explanation as an array of its lines. */
static json_t *lines_array(const char *text) {
    json_t *array = json_array();
    while (*text) {
        const size_t length = strcspn(text, "\n");
        json_array_append_new(array, json_stringn(text, length));
        text += length + (text[length] == '\n');
    }
    return array;
}

/* Print the explanation of a problem, starting with what runs it, and add it to the document;
 * returns the exit code for its status. */
static cli_exit put(const cli_session *session, const lab_spec *spec, const char *text,
                    const char *kernel, att_status status, json_t *results) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    fprintf(session->text, "%s\n", line);
    cli_put_explanation(session->text, text, session->options->all);
    json_array_append_new(
        results,
        json_pack("{s:o, s:s?, s:s, s:o}", "problem", lab_json_problem(spec), "kernel", kernel,
                  "status", att_status_name(status), "text", lines_array(text)));
    return cli_exit_of_status(status);
}

/* On the device that the session has opened. */
static cli_exit explain_here(const cli_session *session, const lab_spec *spec,
                             json_t *results) {
    char text[ATT_EXPLAIN_MAX];
    if (spec->operation->explain(session->ctx[0], spec, text, sizeof text) != ATT_OK)
        return cli_library_failed(session->options);
    att_plan *plan = NULL;
    const att_status status = spec->operation->plan(&plan, session->ctx[0], spec);
    const cli_exit result =
        put(session, spec, text, plan ? att_plan_kernel(plan) : NULL, status, results);
    att_plan_destroy(plan);
    return result;
}

/* On a GPU that is known only from its file. */
static cli_exit explain_there(const cli_session *session, const lab_device *device,
                              const lab_spec *spec, json_t *results) {
    const cli_options *o = session->options;
    const lab_choice_options options = {.kernel = o->kernel_count ? o->kernels[0] : NULL,
                                        .allow_slow = o->allow_slow,
                                        .allow_unattested = o->allow_unattested};
    const char *kernel;
    char text[ATT_EXPLAIN_MAX] = "";
    const att_status status =
        lab_choice_explain(&kernel, device, spec, &options, text, sizeof text);
    if (status != ATT_OK && status != ATT_E_UNSUPPORTED)
        return cli_library_failed(o);
    return put(session, spec, text, kernel, status, results);
}

/* Explain every problem of the session, for `device` if it is given, otherwise here. */
static cli_exit explain_all(cli_session *session, const lab_device *device) {
    json_t *results = json_array();
    cli_exit result = CLI_HOLDS;
    for (size_t i = 0; i < session->spec_count; i++) {
        const lab_spec *spec = &session->specs[i];
        if (i > 0)
            fputc('\n', session->text);
        const cli_exit one = device ? explain_there(session, device, spec, results)
                                    : explain_here(session, spec, results);
        result = one > result ? one : result;
    }
    json_t *document = lab_json_document("attest-explain-1", device ? NULL : session->ctx[0]);
    if (device)
        json_object_set_new(document, "device", lab_plan_device_object(device));
    json_object_set_new(document, "results", results);
    return cli_session_finish(session, document, result);
}

/* Options that do not apply to a device file. */
static bool fits_a_file(const cli_options *o) {
    const bool asked_isa = o->isa_count != 1 || o->isa[0] != ATT_ISA_AUTO;
    return !(asked_isa || o->threads || o->rows) ||
           cli_complain(o,
                        "--isa, --threads and --rows are for devices of this machine, not "
                        "for --device %s",
                        o->plan_device);
}

static cli_exit explain_elsewhere(const cli_options *o) {
    cli_session session;
    lab_device device;
    lab_message why;
    cli_exit result = cli_session_begin_problems(&session, o, NULL);
    if (result == CLI_HOLDS && !fits_a_file(o))
        result = CLI_USAGE;
    if (result == CLI_HOLDS && !lab_device_read(&device, o->plan_device, &why)) {
        cli_complain(o, "--device %s: %s; or cpu, or virtual", o->plan_device, why.text);
        result = CLI_USAGE;
    }
    if (result == CLI_HOLDS) {
        fprintf(session.text, "device: %s, from its file; nothing runs\n", device.limits.name);
        result = explain_all(&session, &device);
    }
    cli_session_close(&session);
    return result;
}

cli_exit cli_explain(const cli_options *o) {
    if (o->plan_device)
        return explain_elsewhere(o);
    cli_session session;
    cli_exit result = cli_session_begin(&session, o, NULL);
    if (result == CLI_HOLDS)
        result = explain_all(&session, NULL);
    cli_session_close(&session);
    return result;
}
