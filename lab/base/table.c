/* table.c: text tables. */
#include "lab/base/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/clean_text.h"
#include "lab/base/screen.h"

struct lab_table {
    const lab_table_column *columns;
    size_t column_count;
    char **cells;
    size_t cell_count, capacity;
    bool lost_cells;
};

lab_table *lab_table_create(const lab_table_column *columns, size_t column_count) {
    lab_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->columns = columns;
    table->column_count = column_count;
    return table;
}

void lab_table_destroy(lab_table *table) {
    if (!table)
        return;
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}

/* Take ownership of `text`, which may be NULL for an empty cell. */
static void append(lab_table *table, char *text) {
    if (table->cell_count == table->capacity) {
        const size_t capacity = table->capacity ? 2 * table->capacity : 64;
        char **cells = realloc(table->cells, capacity * sizeof *cells);
        if (!cells) {
            table->lost_cells = true;
            free(text);
            return;
        }
        table->cells = cells;
        table->capacity = capacity;
    }
    table->cells[table->cell_count++] = text;
}

void lab_table_cell(lab_table *table, const char *format, ...) {
    if (!table)
        return;
    char *text = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0) {
        text = NULL;
        table->lost_cells = true;
    }
    va_end(list);
    append(table, text ? lab_clean_line(text) : NULL);
}

void lab_table_end_row(lab_table *table) {
    while (table && !table->lost_cells && table->cell_count % table->column_count != 0)
        append(table, NULL);
}

size_t lab_text_width(const char *text) {
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80; /* not a continuation byte */
    return width;
}

static const char *cell_text(const lab_table *table, size_t index) {
    return table->cells[index] ? table->cells[index] : "";
}

static size_t column_width(const lab_table *table, size_t column) {
    size_t width = lab_text_width(table->columns[column].title);
    for (size_t i = column; i < table->cell_count; i += table->column_count) {
        const size_t w = lab_text_width(cell_text(table, i));
        width = w > width ? w : width;
    }
    return width;
}

/* ------------------------------------------------------------------------------ layout */

/* Later lines of a row are indented. A left column is not made narrower than NARROW_LEAST, and a
 * remark is worth printing from REMARK_LEAST columns on. */
enum { INDENT = 4, NARROW_LEAST = 16, REMARK_LEAST = 12 };

/* Where a column is printed. */
typedef struct place {
    size_t width, line;
} place;

typedef struct layout {
    const lab_table *table;
    place *places;
    size_t count; /* of the columns that are printed */
    size_t lines; /* of a row */
} layout;

static lab_table_kind kind_of(const layout *l, size_t column) {
    return l->table->columns[column].kind;
}

static size_t total_width(const layout *l) {
    size_t total = 0;
    for (size_t c = 0; c < l->count; c++)
        total += l->places[c].width + (c ? 2 : 0);
    return total;
}

static void cut_remark(layout *l, size_t columns) {
    const size_t excess = total_width(l) - columns;
    size_t *last = &l->places[l->count - 1].width;
    if (l->count < 2 || kind_of(l, l->count - 1) != LAB_TABLE_REMARK)
        return;
    if (*last >= excess + REMARK_LEAST)
        *last -= excess;
    else
        l->count--;
}

/* Take from the widest left column until the table fits; false if it cannot. */
static bool narrow(layout *l, size_t columns) {
    while (total_width(l) > columns) {
        place *widest = NULL;
        for (size_t c = 0; c < l->count; c++)
            if (kind_of(l, c) == LAB_TABLE_LEFT && l->places[c].width > NARROW_LEAST &&
                (!widest || l->places[c].width > widest->width))
                widest = &l->places[c];
        if (!widest)
            return false;
        widest->width--;
    }
    return true;
}

/* As many columns on each line as have room there. */
static void fold(layout *l, size_t columns) {
    size_t used = 0;
    l->lines = 1;
    for (size_t c = 0; c < l->count; c++) {
        const size_t width = column_width(l->table, c);
        const size_t room = columns > INDENT + NARROW_LEAST ? columns - INDENT : NARROW_LEAST;
        place *p = &l->places[c];
        p->width = width < room ? width : room;
        if (used && used + 2 + p->width > columns) {
            l->lines++;
            used = 0;
        }
        used += (used ? 2 : l->lines > 1 ? INDENT : 0) + p->width;
        p->line = l->lines - 1;
    }
}

static void fit(layout *l, size_t columns) {
    for (size_t c = 0; c < l->count; c++)
        l->places[c].width = column_width(l->table, c);
    if (columns && total_width(l) > columns)
        cut_remark(l, columns);
    if (columns && total_width(l) > columns && !narrow(l, columns))
        fold(l, columns);
}

/* ------------------------------------------------------------------------------- cells */

/* The bytes of the first `columns` characters. */
static size_t bytes_of(const char *text, size_t columns) {
    size_t bytes = 0;
    for (; columns > 0; columns--)
        do
            bytes++;
        while (((unsigned char)text[bytes] & 0xc0) == 0x80);
    return bytes;
}

/* The bytes of `text` that are printed in `width` columns: all, or up to the last good place to
 * break. */
static size_t piece(const char *text, size_t width) {
    size_t bytes = 0, good = 0;
    for (size_t shown = 0; text[bytes]; shown++) {
        if (shown == width)
            return text[bytes] == ' ' || !good ? bytes : good;
        const bool breaks = strchr(" ,_", text[bytes]);
        bytes += bytes_of(text + bytes, 1);
        good = breaks ? bytes : good;
    }
    return bytes;
}

/* Print what fits the column, and step over it; the rest of a remark is dropped. */
static void put(FILE *stream, const char **text, size_t width, lab_table_kind kind, bool last) {
    const char *start = *text;
    const bool cut = kind == LAB_TABLE_REMARK && lab_text_width(start) > width;
    size_t bytes = cut ? bytes_of(start, width - 1) : piece(start, width);
    const char *rest = cut ? "" : start + bytes;
    *text = rest + strspn(rest, " ");
    while (*rest && bytes > 1 && start[bytes - 1] == ' ')
        bytes--;
    char *shown;
    if (asprintf(&shown, "%.*s%s", (int)bytes, start, cut ? "\u2026" : "") < 0)
        return;
    const int blank = (int)(width - lab_text_width(shown));
    if (kind == LAB_TABLE_RIGHT)
        fprintf(stream, "%*s", blank, "");
    if (kind == LAB_TABLE_VERDICT)
        lab_put_verdict(stream, shown);
    else
        fputs(shown, stream);
    if (!last)
        fprintf(stream, "%*s  ", kind == LAB_TABLE_RIGHT ? 0 : blank, "");
    free(shown);
}

/* The number of columns up to the last one on that line that has text left; 0: none has. */
static size_t columns_left(const layout *l, const char *const *texts, size_t line) {
    size_t end = l->count;
    while (end > 0 && (l->places[end - 1].line != line || !*texts[end - 1]))
        end--;
    return end;
}

/* Print a row of texts, which are used up; a line of it that would be empty is left out. */
static void put_row(const layout *l, const char **texts, FILE *stream) {
    bool empty = true;
    for (size_t line = 0; line < l->lines; line++) {
        size_t end;
        for (; (end = columns_left(l, texts, line)) > 0; empty = false) {
            fprintf(stream, "%*s", line ? INDENT : 0, "");
            for (size_t c = 0; c < end; c++)
                if (l->places[c].line == line)
                    put(stream, &texts[c], l->places[c].width, kind_of(l, c), c + 1 == end);
            fputc('\n', stream);
        }
    }
    if (empty)
        fputc('\n', stream);
}

static void put_rule(const layout *l, size_t columns, FILE *stream) {
    for (size_t c = 0; c < l->count && l->lines == 1; c++) {
        for (size_t i = 0; i < l->places[c].width; i++)
            fputc('-', stream);
        fputs(c + 1 == l->count ? "\n" : "  ", stream);
    }
    for (size_t i = 0; i < columns && l->lines > 1; i++)
        fputs(i + 1 == columns ? "-\n" : "-", stream);
}

void lab_table_print_within(const lab_table *table, FILE *stream, size_t columns) {
    if (!table)
        return;
    const size_t count = table->column_count;
    layout l = {table, calloc(count, sizeof *l.places), count, 1};
    const char **texts = calloc(count, sizeof *texts);
    if (l.places && texts) {
        fit(&l, columns);
        for (size_t c = 0; c < count; c++)
            texts[c] = table->columns[c].title;
        put_row(&l, texts, stream);
        put_rule(&l, columns, stream);
        for (size_t start = 0; start < table->cell_count; start += count) {
            for (size_t c = 0; c < count; c++)
                texts[c] = start + c < table->cell_count ? cell_text(table, start + c) : "";
            put_row(&l, texts, stream);
        }
    } else {
        fputs("(no memory for the table)\n", stream);
    }
    if (table->lost_cells)
        fputs("(cells are missing: memory ran out)\n", stream);
    free(l.places);
    free(texts);
}

void lab_table_print(const lab_table *table, FILE *stream) {
    lab_table_print_within(table, stream, lab_screen_width(stream));
}
