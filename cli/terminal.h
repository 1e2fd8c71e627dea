/* terminal.h: how wide a stream's terminal is, and text that fits it. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stddef.h>
#include <stdio.h>

/* A terminal whose width is not known. */
enum { CLI_COLUMNS_USUAL = 80 };

/* The width of the stream's terminal; else $COLUMNS; else `fallback`. From 40 to 1000. */
size_t cli_columns(FILE *stream, size_t fallback);

/* Write `text` and a newline, broken at spaces so that no line is longer than `width`. The first
 * line begins where the stream stands, at column `indent`; the others are indented to it. */
void cli_put_wrapped(FILE *stream, const char *text, size_t indent, size_t width);

#endif
