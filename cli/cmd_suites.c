/* cmd_suites.c: attest suites. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "lab/base/table.h"
#include "lab/problem/suite.h"

typedef struct listing {
    const cli_options *options;
    lab_table *table;
    json_t *results;
    size_t count;
    cli_exit result;
} listing;

static void add(const char *name, void *state) {
    listing *l = state;
    lab_suite suite;
    lab_message why;
    if (!lab_suite_read(&suite, name, &why)) {
        cli_complain(l->options, "%s", why.text);
        l->result = CLI_USAGE;
        return;
    }
    l->count++;
    lab_table_cell(l->table, "%s", name);
    lab_table_cell(l->table, "%zu", suite.count);
    lab_table_cell(l->table, "%s", suite.summary);
    json_array_append_new(l->results, json_pack("{s:s, s:I, s:s, s:s}", "name", name,
                                                "problems", (json_int_t)suite.count, "summary",
                                                suite.summary, "file", suite.path));
    lab_suite_free(&suite);
}

cli_exit cli_suites(const cli_options *o) {
    static const lab_table_column columns[] = {
        {"suite", LAB_TABLE_LEFT}, {"problems", LAB_TABLE_RIGHT}, {"what", LAB_TABLE_REMARK}};
    cli_session session;
    cli_session_start(&session, o);
    cli_exit result = cli_session_open_documents(&session);
    if (result == CLI_HOLDS) {
        listing l = {.options = o,
                     .table = lab_table_create(columns, sizeof columns / sizeof columns[0]),
                     .results = json_array()};
        lab_suite_each(add, &l);
        lab_table_print(l.table, session.text);
        lab_table_destroy(l.table);
        if (l.count == 0 && l.result == CLI_HOLDS) {
            cli_complain(o, "no suites found in $ATTEST_SUITES or beside the program");
            l.result = CLI_NOT_POSSIBLE;
        }
        json_t *document = lab_json_document("attest-suites-1", NULL);
        json_object_set_new(document, "suites", l.results);
        result = cli_session_finish(&session, document, l.result);
    }
    cli_session_close(&session);
    return result;
}
