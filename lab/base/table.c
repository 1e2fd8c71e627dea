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

static void put(FILE *stream, const char *text, size_t width, lab_table_align align,
                bool last) {
    const int pad = (int)(width - lab_text_width(text));
    if (align == LAB_TABLE_RIGHT)
        fprintf(stream, "%*s%s", pad, "", text);
    else
        fprintf(stream, "%s%*s", text, last ? 0 : pad, "");
    fputs(last ? "\n" : "  ", stream);
}

static void put_titles(const lab_table *table, const size_t *widths, FILE *stream) {
    for (size_t c = 0; c < table->column_count; c++)
        put(stream, table->columns[c].title, widths[c], table->columns[c].align,
            c + 1 == table->column_count);
    for (size_t c = 0; c < table->column_count; c++) {
        for (size_t i = 0; i < widths[c]; i++)
            fputc('-', stream);
        fputs(c + 1 == table->column_count ? "\n" : "  ", stream);
    }
}

/* Print the row whose cells begin at `start`, up to its last cell that is not empty. */
static void put_row(const lab_table *table, const size_t *widths, size_t start, FILE *stream) {
    size_t cells = table->cell_count - start;
    cells = cells < table->column_count ? cells : table->column_count;
    while (cells > 1 && !*cell_text(table, start + cells - 1))
        cells--;
    for (size_t c = 0; c < cells; c++)
        put(stream, cell_text(table, start + c), widths[c], table->columns[c].align,
            c + 1 == cells);
}

void lab_table_print(const lab_table *table, FILE *stream) {
    if (!table)
        return;
    size_t *widths = calloc(table->column_count, sizeof *widths);
    if (!widths) {
        fputs("(no memory for the table)\n", stream);
        return;
    }
    for (size_t c = 0; c < table->column_count; c++)
        widths[c] = column_width(table, c);
    put_titles(table, widths, stream);
    for (size_t start = 0; start < table->cell_count; start += table->column_count)
        put_row(table, widths, start, stream);
    if (table->lost_cells)
        fputs("(cells are missing: memory ran out)\n", stream);
    free(widths);
}
