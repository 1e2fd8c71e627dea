/* table.h: rows of text in columns as wide as their widest cell. */
#ifndef LAB_TABLE_H
#define LAB_TABLE_H

#include <stddef.h>
#include <stdio.h>

typedef enum lab_table_kind {
    LAB_TABLE_LEFT,
    LAB_TABLE_RIGHT,   /* numbers */
    LAB_TABLE_VERDICT, /* left, in the colour of its word (screen.h) */
    LAB_TABLE_REMARK   /* left; the last column, which a narrow terminal may do without */
} lab_table_kind;

typedef struct lab_table_column {
    const char *title;
    lab_table_kind kind;
} lab_table_column;

/* Cells are copied. A failed allocation loses cells but never stops the program:
 * lab_table_print() then ends with a line that says so. */
typedef struct lab_table lab_table;

/* `columns` must outlive the table. NULL if memory ran out; every call below accepts NULL. */
lab_table *lab_table_create(const lab_table_column *columns, size_t column_count);
void lab_table_destroy(lab_table *table);

/* Add the next cell, printf-style, row by row; control codes are replaced. */
void lab_table_cell(lab_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Add empty cells up to the end of the row. */
void lab_table_end_row(lab_table *table);

/* Print titles, a rule, then the rows; columns two spaces apart, no trailing spaces. On the open
 * screen of screen.h, in its width; elsewhere in full. */
void lab_table_print(const lab_table *table, FILE *stream);

/* The same in at most `columns` columns, 0 for no limit. First a remark is cut short with an
 * ellipsis, or left out if little would remain; then left columns wrap their texts; if that is
 * not enough, a row takes several lines, the later ones indented. */
void lab_table_print_within(const lab_table *table, FILE *stream, size_t columns);

/* The columns that a UTF-8 string takes on a terminal (no wide or combining characters). */
size_t lab_text_width(const char *text);

#endif
