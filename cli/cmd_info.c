/* cmd_info.c: attest info. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "lab/machine.h"
#include "lab/table.h"

static void put_instruction_sets(FILE *text, const att_context_info *info) {
    fputs("instructions  ", text);
    for (int isa = ATT_ISA_PORTABLE; isa <= (int)info->isa_machine; isa++)
        fprintf(text, "%s%s", isa > ATT_ISA_PORTABLE ? ", " : "", lab_isa_name((att_isa)isa));
    fprintf(text, "; %s in use\n", lab_isa_name(info->isa));
}

static void put_kernels(FILE *text, const att_context *ctx) {
    static const lab_table_column columns[] = {{"kernel", LAB_TABLE_LEFT},
                                               {"device", LAB_TABLE_LEFT},
                                               {"needs", LAB_TABLE_LEFT},
                                               {"available", LAB_TABLE_LEFT},
                                               {"what it is", LAB_TABLE_LEFT}};
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < att_kernel_count(); i++) {
        att_kernel_info kernel = {.size = sizeof kernel};
        if (att_kernel_query(ctx, i, &kernel) != ATT_OK)
            continue;
        lab_table_cell(table, "%s", kernel.id);
        lab_table_cell(table, "%s", lab_device_name(kernel.device));
        lab_table_cell(table, "%s", lab_isa_name(kernel.isa));
        lab_table_cell(table, "%s", kernel.available ? "yes" : "no");
        lab_table_cell(table, "%s", kernel.summary);
    }
    lab_table_print(table, text);
    lab_table_destroy(table);
}

static json_t *kernels_array(const att_context *ctx) {
    json_t *array = json_array();
    for (size_t i = 0; i < att_kernel_count(); i++) {
        att_kernel_info kernel = {.size = sizeof kernel};
        if (att_kernel_query(ctx, i, &kernel) == ATT_OK)
            json_array_append_new(
                array,
                json_pack("{s:s, s:s, s:s, s:b, s:s}", "id", kernel.id, "device",
                          lab_device_name(kernel.device), "isa", lab_isa_name(kernel.isa),
                          "available", kernel.available, "summary", kernel.summary));
    }
    return array;
}

cli_exit cli_info(const cli_options *o) {
    cli_session session;
    cli_session_start(&session, o);
    cli_exit result = cli_session_open(&session);
    att_context_info info = {.size = sizeof info};
    if (result == CLI_HOLDS && att_context_query(session.ctx[0], &info) != ATT_OK)
        result = cli_library_failed(o);
    if (result == CLI_HOLDS) {
        FILE *text = session.text;
        fprintf(text, "attest        %s, built with %s\n", att_version(), lab_compiler());
        fprintf(text, "processor     %s\n", info.name);
        fprintf(text, "device        %s\n", lab_device_name(info.device));
        put_instruction_sets(text, &info);
        fprintf(text, "threads       %d\n\n", (int)info.threads);
        put_kernels(text, session.ctx[0]);
        json_t *document = lab_json_document("attest-info-1", session.ctx[0]);
        json_object_set_new(document, "kernels", kernels_array(session.ctx[0]));
        result = cli_session_finish(&session, document, result);
    }
    cli_session_close(&session);
    return result;
}
