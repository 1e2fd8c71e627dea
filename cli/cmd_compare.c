/* cmd_compare.c: attest compare. */
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/verdict_report.h"
#include "lab/measure/comparison.h"

static cli_exit report(cli_session *session, const lab_results *a, const lab_results *b) {
    const cli_options *o = session->options;
    lab_comparison comparison;
    lab_message why;
    if (!lab_compare(&comparison, a, b, o->allowed, o->minimum_effect, o->seed, &why)) {
        cli_complain(o, "%s", why.text);
        return CLI_USAGE;
    }
    cli_put_comparison(session->text, &comparison);
    if (session->csv.stream)
        cli_put_comparison_csv(session->csv.stream, &comparison);
    json_t *document = lab_json_document("attest-compare-1", NULL);
    json_object_set_new(document, "comparison", lab_json_comparison(&comparison));
    /* The machine that took the samples, not the one that compares them. */
    json_object_set(document, "machine", json_object_get(b->document, "machine"));
    json_object_set_new(document, "machines",
                        json_pack("{s:O*, s:O*}", "a", json_object_get(a->document, "machine"),
                                  "b", json_object_get(b->document, "machine")));
    json_object_set_new(document, "a", json_string(o->shapes[0]));
    json_object_set_new(document, "b", json_string(o->shapes[1]));
    const cli_exit outcome = lab_comparison_holds(&comparison) ? CLI_HOLDS : CLI_CHECK_FAILED;
    lab_comparison_free(&comparison);
    return cli_session_finish(session, document, outcome);
}

cli_exit cli_compare(const cli_options *o) {
    if (o->shape_count != 2) {
        cli_complain(o, "expected two result files, A and B, as `attest bench --json` or "
                        "--save wrote them");
        return CLI_USAGE;
    }
    cli_session session;
    lab_results a, b = {.document = NULL};
    cli_session_start(&session, o);
    cli_exit result = cli_read_results(&a, o, o->shapes[0]);
    if (result == CLI_HOLDS)
        result = cli_read_results(&b, o, o->shapes[1]);
    if (result == CLI_HOLDS)
        result = cli_session_open_documents(&session);
    if (result == CLI_HOLDS)
        result = report(&session, &a, &b);
    lab_results_free(&a);
    lab_results_free(&b);
    cli_session_close(&session);
    return result;
}
