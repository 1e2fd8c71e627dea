/* cmd_judge.c: attest judge. */
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "lab/base/json.h"
#include "lab/base/json_load.h"
#include "lab/report/call_costs.h"
#include "lab/report/model_speeds.h"
#include "lab/report/standing.h"
#include "lab/report/training_steps.h"

/* The goals if none are named: according to the device of the files. */
static unsigned goals_of(const cli_options *o, const lab_report *report) {
    if (o->goals_given)
        return o->goals;
    for (size_t i = 0; i < report->timing_count; i++)
        if (strcmp(report->timings[i].timer, "cpu") == 0)
            return LAB_GOALS_CPU;
    return LAB_GOALS_OF_GPU;
}

static cli_exit judge(cli_session *session, lab_report *report) {
    const cli_options *o = session->options;
    lab_standing standing;
    lab_message why;
    if (!lab_standing_of(&standing, report, goals_of(o, report), &why)) {
        cli_complain(o, "%s", why.text);
        return CLI_NOT_POSSIBLE;
    }
    lab_standing_table(session->text, report);
    fputc('\n', session->text);
    lab_standing_lines(session->text, &standing);
    json_t *document = lab_json_document("attest-judge-1", NULL);
    json_object_set_new(document, "standing", lab_json_standing(&standing));
    const cli_exit outcome = lab_standing_holds(&standing) ? CLI_HOLDS : CLI_CHECK_FAILED;
    lab_standing_free(&standing);
    return cli_session_finish(session, document, outcome);
}

typedef bool judge_function(FILE *text, json_t *document, const char *name, json_t **goals,
                            bool *holds, lab_message *why);

/* Samples of the host cost of calls, of training steps, or of whole models, are in separate
 * files. */
static judge_function *function_for(const json_t *document) {
    const char *schema = json_string_value(json_object_get(document, "schema"));
    if (schema && lab_call_costs_schema(schema))
        return lab_call_costs_judge;
    if (schema && lab_model_speeds_schema(schema))
        return lab_model_speeds_judge;
    return schema && lab_training_steps_schema(schema) ? lab_training_steps_judge : NULL;
}

static cli_exit judge_python(const cli_options *o, json_t *samples, judge_function *function) {
    cli_session session;
    lab_message why;
    json_t *goals;
    bool holds;
    cli_session_start(&session, o);
    cli_exit result = cli_session_open_documents(&session);
    if (result == CLI_HOLDS &&
        !function(session.text, samples, o->shapes[0], &goals, &holds, &why)) {
        cli_complain(o, "%s", why.text);
        result = CLI_USAGE;
    } else if (result == CLI_HOLDS) {
        json_t *document = lab_json_document("attest-judge-1", NULL);
        json_object_set_new(document, "standing",
                            json_pack("{s:b, s:o}", "holds", holds, "goals", goals));
        result = cli_session_finish(&session, document, holds ? CLI_HOLDS : CLI_CHECK_FAILED);
    }
    cli_session_close(&session);
    return result;
}

static cli_exit judge_reports(const cli_options *o) {
    cli_session session;
    lab_report report;
    lab_message why;
    if (!lab_report_make(&report, o->shapes, o->shape_count, &why)) {
        cli_complain(o, "%s", why.text);
        return CLI_USAGE;
    }
    cli_session_start(&session, o);
    cli_exit result = cli_session_open_documents(&session);
    if (result == CLI_HOLDS)
        result = judge(&session, &report);
    cli_session_close(&session);
    lab_report_free(&report);
    return result;
}

static cli_exit judge_file(const cli_options *o) {
    lab_message why;
    json_t *document = lab_json_load(o->shapes[0], &why);
    if (!document) {
        cli_complain(o, "%s", why.text);
        return CLI_USAGE;
    }
    judge_function *function = function_for(document);
    const cli_exit result = function ? judge_python(o, document, function) : judge_reports(o);
    json_decref(document);
    return result;
}

cli_exit cli_judge(const cli_options *o) {
    struct stat info;
    if (o->shape_count == 0) {
        cli_complain(o, "expected a file of results, for example: attest judge result.json");
        return CLI_USAGE;
    }
    const bool is_file =
        o->shape_count == 1 && (stat(o->shapes[0], &info) != 0 || !S_ISDIR(info.st_mode));
    return is_file ? judge_file(o) : judge_reports(o);
}
