/* user_rows.c: reads rows files. Every field is checked here, before anything can be compiled
 * from it. */
#include "core/user_rows.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sha256.h"
#include "cuda/jit.h"
#include "core/switches.h"

enum { LINE_MAX_BYTES = 512, FIELDS_MAX = 32 };
static const int64_t count_most = INT32_MAX;

/* The reader's position, and what it has read of the current row. */
typedef struct reader {
    const char *name, *origin; /* for messages */
    int line;
    const char *field; /* being read; "" between fields */

    att_user_row *row; /* NULL before the first [row] */
    int row_line;
    bool seen[FIELDS_MAX]; /* in the order of `fields` */
    bool sized[ATT_SIZES_MAX], has_mode;
    const att_kernel_row *base;
    int tile[4]; /* m, n, stages, warps */
    bool has_tile;
    uint32_t off;
    bool may_spill;
    char digest[ATT_SHA256_HEX], tuned[64];
} reader;

__attribute__((format(printf, 2, 3))) static att_status complain(const reader *r,
                                                                 const char *format, ...) {
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return att_fail(ATT_E_ARG, r->origin, "%s:%d: %s%s%s", r->name, r->line, r->field,
                    *r->field ? ": " : "", text);
}

/* ----------------------------------------------------------------------------- values */

static bool all_of(const char *text, const char *letters) {
    return *text && text[strspn(text, letters)] == '\0';
}

static bool read_count(const char *text, size_t length, int64_t *out) {
    char digits[16];
    if (length == 0 || length >= sizeof digits)
        return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (!all_of(digits, "0123456789"))
        return false;
    *out = strtoll(digits, NULL, 10);
    return *out <= count_most;
}

static att_status set_id(reader *r, const char *value) {
    char *id = r->row->id;
    if (strlen(value) >= sizeof r->row->id ||
        !all_of(value, "abcdefghijklmnopqrstuvwxyz0123456789_") ||
        strncmp(value, "user_", 5) != 0 || !value[5])
        return complain(r,
                        "'%.80s' is not user_ and small letters, digits and _, 63 in all at "
                        "most",
                        value);
    memcpy(id, value, strlen(value) + 1);
    return ATT_OK;
}

/* Which tiles are allowed depends on the base. */
static att_status check_tile(reader *r) {
    char why[128];
    if (!r->base || !r->has_tile || r->base->family->tile_fits(r->tile, why, sizeof why))
        return ATT_OK;
    r->field = "tile";
    return complain(r, "%s", why);
}

static att_status set_base(reader *r, const char *value) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (row->cuda && strcmp(row->id, value) == 0)
            r->base = row;
    }
    if (!r->base)
        return complain(r, "there is no GPU kernel '%.80s'", value);
    if (att_switch_count(r->base->family) == 0 || !r->base->family->tile_fits)
        return complain(r, "%s cannot be varied: %s.cu has no switches", value,
                        r->base->cuda->source);
    return check_tile(r);
}

/* "m128n64s2w4". */
static att_status set_tile(reader *r, const char *value) {
    static const char letters[] = "mnsw";
    const char *at = value;
    for (int i = 0; i < 4; i++) {
        int64_t number = 0;
        const size_t length = *at == letters[i] ? strspn(at + 1, "0123456789") : 0;
        if (length > 5 || !read_count(at + 1, length, &number))
            return complain(r, "'%.80s' is not of the form m128n64s2w4", value);
        r->tile[i] = (int)number;
        at += 1 + length;
    }
    if (*at)
        return complain(r, "'%.80s' is not of the form m128n64s2w4", value);
    r->has_tile = true;
    return check_tile(r);
}

/* The next word, separated by spaces or commas; returns its length, 0 at the end. */
static size_t next_word(const char **text) {
    *text += strspn(*text, " ,");
    return strcspn(*text, " ,");
}

/* The names are unknown before the base is, so the base comes first. */
static att_status set_off(reader *r, const char *value) {
    if (!r->base)
        return complain(r, "comes before base, which says what switches there are");
    for (size_t length; (length = next_word(&value)) > 0; value += length) {
        size_t i = 0;
        const att_switch *found;
        while ((found = att_switch_of(r->base->family, i)) &&
               (strlen(found->name) != length || strncmp(found->name, value, length) != 0))
            i++;
        if (!found)
            return complain(r, "%s.cu has no switch '%.*s'", r->base->cuda->source,
                            (int)(length < 80 ? length : 80), value);
        if (r->off & (1u << i))
            return complain(r, "%s is named twice", found->name);
        r->off |= 1u << i;
    }
    return ATT_OK;
}

static att_status set_with(reader *r, const char *value) {
    if (!r->base)
        return complain(r, "comes before base, which says what problems there are");
    const att_operation *operation = r->base->family->operation;
    for (size_t length; (length = next_word(&value)) > 0; value += length) {
        size_t i = 0;
        while (i < operation->trait_count &&
               (strlen(operation->trait_names[i]) != length ||
                strncmp(operation->trait_names[i], value, length) != 0))
            i++;
        if (i == operation->trait_count)
            return complain(r, "no problem has '%.*s'", (int)(length < 80 ? length : 80),
                            value);
        r->row->scope.traits |= 1u << i;
    }
    return ATT_OK;
}

static att_status set_gpu(reader *r, const char *value) {
    if (strlen(value) >= sizeof r->row->scope.gpu)
        return complain(r, "is longer than a GPU's name may be");
    snprintf(r->row->scope.gpu, sizeof r->row->scope.gpu, "%s", value);
    return ATT_OK;
}

static att_status set_number(reader *r, int *out, const char *value, int least, int most) {
    int64_t number = 0;
    if (!read_count(value, strlen(value), &number) || number < least || number > most)
        return complain(r, "'%.40s' is not a whole number from %d to %d", value, least, most);
    *out = (int)number;
    return ATT_OK;
}

static att_status set_cc(reader *r, const char *value) {
    return set_number(r, &r->row->scope.cc, value, 80, 999);
}

static att_status set_sms(reader *r, const char *value) {
    return set_number(r, &r->row->scope.sms, value, 1, 100000);
}

/* "512", or "1..512". */
static att_status set_range(reader *r, att_range *out, const char *value) {
    const char *dots = strstr(value, "..");
    const size_t length = dots ? (size_t)(dots - value) : strlen(value);
    const char *high = dots ? dots + 2 : value;
    if (!read_count(value, length, &out->low) ||
        !read_count(high, dots ? strlen(high) : length, &out->high) || out->low > out->high)
        return complain(r, "'%.40s' is neither a count nor two as in 1..512", value);
    return ATT_OK;
}

/* The mode of the operation: "none, top-left, bottom-right". */
static att_status set_mode(reader *r, const att_operation *operation, const char *value) {
    char known[128] = "";
    for (size_t i = 0; i < operation->mode_count; i++) {
        const size_t used = strlen(known);
        if (strcmp(operation->mode_names[i], value) == 0) {
            r->row->scope.mode = (int)i;
            r->has_mode = true;
            return ATT_OK;
        }
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                 operation->mode_names[i]);
    }
    return complain(r, "'%.40s' is none of %s", value, known);
}

static att_status set_source(reader *r, const char *value) {
    if (strlen(value) != ATT_SHA256_HEX - 1 || !all_of(value, "0123456789abcdef"))
        return complain(r, "is not the 64 hexadecimal digits of a SHA-256");
    memcpy(r->digest, value, ATT_SHA256_HEX);
    return ATT_OK;
}

static att_status set_spills(reader *r, const char *value) {
    if (strcmp(value, "allowed") != 0)
        return complain(r, "'%.40s' is not allowed", value);
    r->may_spill = true;
    return ATT_OK;
}

/* Information for people; the selection ignores it. */
static att_status set_note(reader *r, const char *value) {
    for (const char *at = value; *at; at++)
        if (iscntrl((unsigned char)*at))
            return complain(r, "has a control character");
    return ATT_OK;
}

static att_status set_date(reader *r, const char *value) {
    ATT_TRY(set_note(r, value));
    snprintf(r->tuned, sizeof r->tuned, "%s", value);
    return ATT_OK;
}

static const struct field {
    const char *name;
    bool required;
    att_status (*set)(reader *r, const char *value);
} fields[] = {
    {"id", true, set_id},          {"base", true, set_base},     {"tile", true, set_tile},
    {"off", false, set_off},       {"gpu", true, set_gpu},       {"cc", true, set_cc},
    {"sms", true, set_sms},        {"with", false, set_with},    {"source", false, set_source},
    {"spills", false, set_spills}, {"problem", false, set_note}, {"date", false, set_date},
    {"verdict", false, set_note},  {"driver", false, set_note},  {"uuid", false, set_note},
    {"attest", false, set_note},   {"code", false, set_note},
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };
_Static_assert((int)FIELD_COUNT <= (int)FIELDS_MAX,
               "the reader remembers every field that it has seen");

/* ------------------------------------------------------------------------------- rows */

static void put(char *buf, size_t n, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Append. */
static void put(char *buf, size_t n, const char *format, ...) {
    const size_t used = strlen(buf);
    va_list list;
    va_start(list, format);
    vsnprintf(buf + used, n - used, format, list);
    va_end(list);
}

static void describe(reader *r) {
    att_user_row *row = r->row;
    const int *t = r->tile;
    put(row->summary, sizeof row->summary, "a user's row: %s at m%dn%ds%dw%d", r->base->id,
        t[0], t[1], t[2], t[3]);
    const char *before = " without ";
    for (size_t i = 0; i < att_switch_count(r->base->family); i++)
        if (r->off & (1u << i)) {
            const char *name = att_switch_of(r->base->family, i)->name;
            put(row->defines, sizeof row->defines, " -DUSE_%s=0", name);
            put(row->summary, sizeof row->summary, "%s%s", before, name);
            before = ", ";
        }
    if (*r->tuned)
        put(row->summary, sizeof row->summary, "; tuned %s", r->tuned);
}

static att_status check_unique(const reader *r, const att_user_rows *rows) {
    for (size_t i = 0; i + 1 < rows->count; i++)
        if (strcmp(rows->list[i].id, r->row->id) == 0)
            return complain(r, "there are two rows %s", r->row->id);
    return ATT_OK;
}

/* A row must say which sizes and mode it serves. */
static att_status check_scope(const reader *r) {
    const att_operation *operation = r->base->family->operation;
    for (size_t i = 0; i < operation->size_count; i++)
        if (!r->sized[i])
            return complain(r, "the row has no %s", operation->sizes[i].name);
    return r->has_mode ? ATT_OK : complain(r, "the row has no %s", operation->mode_field);
}

/* The row has been read completely: check it. */
static att_status finish_row(reader *r, const att_user_rows *rows) {
    if (!r->row)
        return ATT_OK;
    r->field = "";
    const int here = r->line;
    r->line = r->row_line; /* errors about the whole row name its first line */
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (fields[i].required && !r->seen[i])
            return complain(r, "the row has no %s", fields[i].name);
    ATT_TRY(check_scope(r));
    ATT_TRY(check_unique(r, rows));
    att_user_row *row = r->row;
    describe(r);
    row->kernel = *r->base->cuda;
    row->kernel.id = row->id;
    row->kernel.summary = row->summary;
    row->kernel.tile_m = r->tile[0];
    row->kernel.tile_n = r->tile[1];
    row->kernel.stages = r->tile[2];
    row->kernel.warps = r->tile[3];
    row->kernel.defines = row->defines;
    row->kernel.may_spill = r->may_spill;
    if (*r->digest) {
        char now[ATT_SHA256_HEX];
        row->scope.stale =
            !att_jit_source_digest(now, r->base->cuda->source) || strcmp(now, r->digest) != 0;
    }
    row->row = (att_kernel_row){.id = row->id,
                                .summary = row->summary,
                                .family = r->base->family,
                                .device = ATT_DEVICE_CUDA,
                                .cuda = &row->kernel,
                                .scope = &row->scope};
    r->line = here;
    return ATT_OK;
}

static void begin_row(reader *r, att_user_rows *rows) {
    *r = (reader){.name = r->name,
                  .origin = r->origin,
                  .line = r->line,
                  .row_line = r->line,
                  .field = "",
                  .row = &rows->list[rows->count++]};
}

/* Which field of a row's scope `name` is: a size by its index, the mode after them; -1:
 * none. */
static int scope_field(const att_operation *operation, const char *name) {
    for (size_t i = 0; i < operation->size_count; i++)
        if (strcmp(operation->sizes[i].name, name) == 0)
            return (int)i;
    const bool mode = operation->mode_field && strcmp(operation->mode_field, name) == 0;
    return mode ? (int)operation->size_count : -1;
}

static bool is_scope_field(const char *name) {
    for (size_t i = 0; att_operation_at(i); i++)
        if (scope_field(att_operation_at(i), name) >= 0)
            return true;
    return false;
}

/* A size or the mode of the base's operation. */
static att_status read_scope(reader *r, const char *name, const char *value) {
    r->field = name;
    if (!r->row)
        return complain(r, "comes before the first [row]");
    if (!r->base)
        return complain(r, "comes before base, which says what problems there are");
    const att_operation *operation = r->base->family->operation;
    const int field = scope_field(operation, name);
    if (field < 0)
        return complain(r, "is not a field of %s", operation->name);
    const bool mode = (size_t)field == operation->size_count;
    if (mode ? r->has_mode : r->sized[field])
        return complain(r, "is given twice");
    if (!*value)
        return complain(r, "has no value");
    if (mode)
        return set_mode(r, operation, value);
    r->sized[field] = true;
    return set_range(r, &r->row->scope.sizes[field], value);
}

/* `name = value`, with blanks around both removed. */
static att_status read_field(reader *r, char *line) {
    char *equals = strchr(line, '=');
    if (!equals)
        return complain(r, "'%.80s' is neither [row] nor NAME = VALUE", line);
    char *end = equals, *value = equals + 1 + strspn(equals + 1, " \t");
    while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(fields[i].name, line) != 0)
            continue;
        r->field = fields[i].name;
        if (!r->row)
            return complain(r, "comes before the first [row]");
        if (r->seen[i])
            return complain(r, "is given twice");
        if (!*value)
            return complain(r, "has no value");
        r->seen[i] = true;
        ATT_TRY(fields[i].set(r, value));
        r->field = "";
        return ATT_OK;
    }
    if (!is_scope_field(line))
        return complain(r, "there is no field '%.80s'", line);
    ATT_TRY(read_scope(r, line, value));
    r->field = "";
    return ATT_OK;
}

static att_status read_line(reader *r, char *line, att_user_rows *rows) {
    char *end = line + strlen(line);
    while (end > line && strchr(" \t\r", end[-1]))
        *--end = '\0';
    line += strspn(line, " \t");
    if (!*line || *line == '#')
        return ATT_OK;
    if (strcmp(line, "[row]") != 0)
        return read_field(r, line);
    ATT_TRY(finish_row(r, rows));
    if (rows->count == ATT_USER_ROWS_MAX)
        return complain(r, "more than %d rows", ATT_USER_ROWS_MAX);
    begin_row(r, rows);
    return ATT_OK;
}

static att_status read_all(reader *r, const char *text, att_user_rows *rows) {
    static const char first[] = "attest-rows 1";
    for (r->line = 1; *text; r->line++) {
        char line[LINE_MAX_BYTES];
        const size_t length = strcspn(text, "\n");
        if (length >= sizeof line)
            return complain(r, "the line is longer than %zu bytes", sizeof line - 1);
        memcpy(line, text, length);
        line[length] = '\0';
        text += length + (text[length] == '\n');
        if (r->line > 1)
            ATT_TRY(read_line(r, line, rows));
        else if (strcmp(line, first) != 0)
            return complain(r, "a rows file begins with the line '%s'", first);
    }
    return finish_row(r, rows);
}

/* An upper bound: lines that could begin a row. */
static size_t count_rows(const char *text) {
    size_t count = 0;
    for (; (text = strstr(text, "[row]")); text++)
        count++;
    return count < ATT_USER_ROWS_MAX ? count : ATT_USER_ROWS_MAX;
}

att_status att_user_rows_read(att_user_rows **out, const char *text, const char *name,
                              const char *field) {
    *out = NULL;
    reader r = {.name = name, .origin = field, .line = 1, .field = ""};
    if (strlen(text) > ATT_USER_TEXT_MAX)
        return complain(&r, "is longer than %d bytes", ATT_USER_TEXT_MAX);
    att_user_rows *rows = att_alloc(sizeof *rows + count_rows(text) * sizeof rows->list[0]);
    ATT_REQUIRE(rows, ATT_E_MEMORY, "", "out of memory for the rows of %s", name);
    const att_status status = read_all(&r, text, rows);
    if (status != ATT_OK) {
        att_free(rows);
        return status;
    }
    *out = rows;
    return ATT_OK;
}
