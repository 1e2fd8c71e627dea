/* cmd_audit.c: attest audit. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "lab/base/interrupt.h"
#include "lab/base/table.h"
#include "lab/evidence/audit.h"

static const lab_table_column columns[] = {
    {"saboteur", LAB_TABLE_LEFT},   {"what it does", LAB_TABLE_LEFT},
    {"outcome", LAB_TABLE_VERDICT}, {"by", LAB_TABLE_LEFT},
    {"check", LAB_TABLE_REMARK},
};

static void put_table(FILE *text, const lab_audit *audit) {
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < audit->count; i++) {
        const lab_audit_result *r = &audit->results[i];
        lab_table_cell(table, "%s", lab_saboteur_name(r->saboteur));
        lab_table_cell(table, "%s", lab_saboteur_deed(r->saboteur));
        lab_table_cell(table, "%s", lab_audit_outcome_name(r->outcome));
        lab_table_cell(table, "%s",
                       r->outcome == LAB_AUDIT_LEFT_OUT ? "-"
                       : r->timed                       ? "bench"
                                                        : "verify");
        lab_table_cell(table, "%s", *r->message ? r->message : "-");
    }
    lab_table_print(table, text);
    lab_table_destroy(table);
}

/* What was played until the user stopped is kept, and the document says that it is not all. */
static cli_exit finish_interrupted(cli_session *session, const lab_audit *audit,
                                   json_t *document) {
    const cli_options *o = session->options;
    json_object_set_new(document, "interrupted", json_true());
    const cli_exit written = cli_session_finish(session, document, CLI_INTERRUPTED);
    if (written == CLI_INTERRUPTED)
        cli_complain(o, "interrupted: %zu of %zu subjects were audited%s%s", audit->count,
                     audit->total, o->json ? ", and are kept in " : "", o->json ? o->json : "");
    return written;
}

static cli_exit report(cli_session *session, const lab_audit *audit) {
    put_table(session->text, audit);
    fprintf(session->text,
            "\n%zu saboteurs caught, %zu missed; %zu honest subjects passed, %zu accused",
            audit->caught, audit->missed, audit->passed, audit->accused);
    if (audit->left_out)
        fprintf(session->text, "; %zu left out", audit->left_out);
    fprintf(session->text, "\n");
    json_t *document = lab_json_document("attest-audit-1", session->ctx[0]);
    json_object_set_new(document, "seed", json_integer((json_int_t)session->options->seed));
    json_object_set_new(document, "results", lab_audit_json(audit));
    if (audit->count < audit->total)
        return finish_interrupted(session, audit, document);
    return cli_session_finish(session, document,
                              audit->missed || audit->accused ? CLI_CHECK_FAILED : CLI_HOLDS);
}

cli_exit cli_audit(const cli_options *o) {
    cli_session session;
    lab_audit audit = {.results = NULL};
    lab_message why;
    lab_spec spec;
    if (o->shape_count > 1) {
        cli_complain(o, "takes one shape");
        return CLI_USAGE;
    }
    if (o->shape_count == 1 && !lab_spec_parse(&spec, o->shapes[0], &why)) {
        cli_complain(o, "%s: %s", o->shapes[0], why.text);
        return CLI_USAGE;
    }
    cli_session_start(&session, o);
    cli_exit result = cli_session_open(&session);
    const lab_audit_options options = {.seed = o->seed,
                                       .plain = o->shape_count ? o->shapes[0] : NULL};
    lab_interrupt_listen("\nattest audit: interrupted; the subjects that were audited are kept "
                         "(again: stop at once)\n");
    if (result == CLI_HOLDS && lab_audit_run(&audit, session.ctx[0], &options, stderr, &why)) {
        result = report(&session, &audit);
    } else if (result == CLI_HOLDS) {
        cli_complain(o, "%s", why.text);
        result = CLI_NOT_POSSIBLE;
    }
    lab_audit_free(&audit);
    cli_session_close(&session);
    return result;
}
