/* cmd_explain.c: attest explain. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/session.h"
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

/* Explain one problem; what is chosen also goes to the document. */
static cli_exit explain(const cli_session *session, const lab_spec *spec, json_t *results) {
    const cli_options *o = session->options;
    char text[ATT_EXPLAIN_MAX], line[LAB_SPEC_MAX];
    if (spec->operation->explain(session->ctx[0], spec, text, sizeof text) != ATT_OK)
        return cli_library_failed(o);
    att_plan *plan = NULL;
    const att_status status = spec->operation->plan(&plan, session->ctx[0], spec);
    lab_spec_print(spec, line, sizeof line);
    const size_t length = strlen(text);
    fprintf(session->text, "%s\n%s%s", line, text,
            length && text[length - 1] == '\n' ? "" : "\n");
    json_array_append_new(
        results, json_pack("{s:o, s:s?, s:s, s:o}", "problem", lab_json_problem(spec), "kernel",
                           plan ? att_plan_kernel(plan) : NULL, "status",
                           att_status_name(status), "text", lines_array(text)));
    att_plan_destroy(plan);
    return cli_exit_of_status(status);
}

cli_exit cli_explain(const cli_options *o) {
    cli_session session;
    cli_exit result = cli_session_begin(&session, o, NULL);
    if (result == CLI_HOLDS) {
        json_t *results = json_array();
        for (size_t i = 0; i < session.spec_count; i++) {
            if (i > 0)
                fputc('\n', session.text);
            const cli_exit one = explain(&session, &session.specs[i], results);
            result = one > result ? one : result;
        }
        json_t *document = lab_json_document("attest-explain-1", session.ctx[0]);
        json_object_set_new(document, "results", results);
        result = cli_session_finish(&session, document, result);
    }
    cli_session_close(&session);
    return result;
}
