/* fuzz_rows.c: rows files: accepted rows must be usable by the selector. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/user_rows.h"
#include "tests/fuzz/api_calls.h"
#include "tests/fuzz/text_input.h"

static void check_row(const att_user_row *row) {
    if (!memchr(row->id, 0, sizeof row->id) || !row->id[0])
        finding("a row without an id");
    for (const char *at = row->id; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *at))
            finding("an id with a '%c'", *at);
    if (strpbrk(row->defines, "\"'`;\\$\n"))
        finding("flags for the compiler: %s", row->defines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = input_text(data, size);
    att_user_rows *rows = NULL;
    const att_status status = att_user_rows_read(&rows, text, "FILE", "rows_file");
    if (status == ATT_OK) {
        for (size_t i = 0; i < rows->count; i++)
            check_row(&rows->list[i]);
        att_free(rows);
    } else {
        if (rows)
            finding("rows that are refused are not NULL");
        api_check_error(status);
    }
    free(text);
    return 0;
}
