/* markup.h: text put into HTML, SVG, Markdown or a terminal so that it stays text.
 *
 * What stands in input files is never trusted: it may hold tags, control codes or marks that turn the reading
 * direction. Every writer here makes such bytes harmless for its place. */
#ifndef LAB_MARKUP_H
#define LAB_MARKUP_H

#include <stddef.h>
#include <stdio.h>

/* Write a page: the format is markup, and every %s is escaped on its way. Knows %s, %d, %zu, %f, %g with their
 * widths and precisions, and %%. Numbers that are not finite become 0, so that no attribute is broken. */
void lab_markup(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* `text` for element content and for attributes in double quotes. Bytes that XML cannot hold, and marks that
 * change the reading direction, become U+FFFD. */
void lab_markup_text(FILE *out, const char *text);

/* `text` as a code span of a Markdown table: nothing in it is a link, a mention, a tag or a column. */
void lab_markup_code(FILE *out, const char *text);

/* A copy of `text` for a terminal: control codes become '?'. At most `columns` wide; what is cut ends in "~".
 * Returns `buf`, of n bytes. */
const char *lab_plain_text(char *buf, size_t n, const char *text, size_t columns);

#endif
