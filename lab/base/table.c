/* table.c: text tables. */
#include "lab/base/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/clean_text.h"

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

/* Write `text` into `width` columns; a longer one is cut. */
static void put(FILE *stream, const char *text, size_t width, lab_table_align align,
                bool last) {
    const size_t wide = lab_text_width(text);
    if (wide > width) {
        size_t bytes = 0;
        for (size_t shown = 0; text[bytes]; bytes++) {
            shown += ((unsigned char)text[bytes] & 0xc0) != 0x80;
            if (shown == width)
                break;
        }
        fprintf(stream, "%.*s\u2026", (int)bytes, text);
    } else if (align == LAB_TABLE_RIGHT) {
        fprintf(stream, "%*s%s", (int)(width - wide), "", text);
    } else {
        fprintf(stream, "%s%*s", text, last ? 0 : (int)(width - wide), "");
    }
    fputs(last ? "\n" : "  ", stream);
}

/* The columns to print, and how wide each is. */
typedef struct layout {
    size_t *widths;
    size_t count;
} layout;

static void put_titles(const lab_table *table, const layout *l, FILE *stream) {
    for (size_t c = 0; c < l->count; c++)
        put(stream, table->columns[c].title, l->widths[c], table->columns[c].align,
            c + 1 == l->count);
    for (size_t c = 0; c < l->count; c++) {
        for (size_t i = 0; i < l->widths[c]; i++)
            fputc('-', stream);
        fputs(c + 1 == l->count ? "\n" : "  ", stream);
    }
}

/* Print the row whose cells begin at `start`, up to its last cell that is not empty. */
static void put_row(const lab_table *table, const layout *l, size_t start, FILE *stream) {
    size_t cells = table->cell_count - start;
    cells = cells < l->count ? cells : l->count;
    while (cells > 1 && !*cell_text(table, start + cells - 1))
        cells--;
    for (size_t c = 0; c < cells; c++)
        put(stream, cell_text(table, start + c), l->widths[c], table->columns[c].align,
            c + 1 == cells);
}

/* Make the table fit by its last column, which is worth printing from LAST_LEAST columns on. */
static void fit(layout *l, size_t columns) {
    enum { LAST_LEAST = 12 };
    size_t total = 0;
    for (size_t c = 0; c < l->count; c++)
        total += l->widths[c] + (c ? 2 : 0);
    if (!columns || total <= columns || l->count < 2)
        return;
    size_t *last = &l->widths[l->count - 1];
    if (*last >= total - columns + LAST_LEAST)
        *last -= total - columns;
    else
        l->count--;
}

void lab_table_print_within(const lab_table *table, FILE *stream, size_t columns) {
    if (!table)
        return;
    layout l = {calloc(table->column_count, sizeof *l.widths), table->column_count};
    if (!l.widths) {
        fputs("(no memory for the table)\n", stream);
        return;
    }
    for (size_t c = 0; c < table->column_count; c++)
        l.widths[c] = column_width(table, c);
    fit(&l, columns);
    put_titles(table, &l, stream);
    for (size_t start = 0; start < table->cell_count; start += table->column_count)
        put_row(table, &l, start, stream);
    if (table->lost_cells)
        fputs("(cells are missing: memory ran out)\n", stream);
    free(l.widths);
}

void lab_table_print(const lab_table *table, FILE *stream) {
    lab_table_print_within(table, stream, 0);
}
