/* markup.h: text put into HTML, SVG, Markdown or a terminal so that it stays text.
 *
 * The contents of input files are never trusted: they may hold tags, control codes or marks
 * that turn the reading direction. Every writer here makes such bytes harmless for its
 * output. */
#ifndef LAB_MARKUP_H
#define LAB_MARKUP_H

#include <stddef.h>
#include <stdio.h>

/* Write markup: the format is trusted, and every %s is escaped. Supports %s, %d, %zu, %f, %g
 * with widths and precisions, and %%. Numbers that are not finite become 0, so that no
 * attribute breaks. */
void lab_markup(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* `text` for element content and for attributes in double quotes. Bytes that XML cannot hold
 * and marks that change the reading direction become U+FFFD. */
void lab_markup_text(FILE *out, const char *text);

/* `text` as a code span in a Markdown table: nothing in it acts as a link, a mention, a tag or
 * a column separator. */
void lab_markup_code(FILE *out, const char *text);

/* A copy of `text` for a terminal: control codes become '?'. At most `columns` wide; truncated
 * text ends in "~". Returns `buf`, of n bytes. */
const char *lab_plain_text(char *buf, size_t n, const char *text, size_t columns);

#endif
