/* screen.h: the terminal behind a stream: its width, and colours for verdicts. */
#ifndef LAB_SCREEN_H
#define LAB_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A terminal whose width is not known. */
enum { LAB_COLUMNS_USUAL = 80 };

/* The width of the stream's terminal; else $COLUMNS; else `fallback`. From 40 to 1000. */
size_t lab_screen_columns(FILE *stream, size_t fallback);

/* Whether the stream is a terminal that can redraw a line: TERM is set and not "dumb". */
bool lab_screen_is_live(FILE *stream);

/* Whether it takes colours: a live terminal, and NO_COLOR is not set. */
bool lab_screen_has_color(FILE *stream);

/* What is written to `text` appears on `under`; a clean stream removes control codes on the way.
 * From now on, if `under` is a terminal, tables on `text` fit its width, and verdicts have their
 * colours. One stream at a time. Thread: call it before others print. */
void lab_screen_open(FILE *text, FILE *under);

/* The columns of `text`; 0: no limit, because no terminal shows it. */
size_t lab_screen_width(FILE *text);

typedef enum lab_tint { LAB_TINT_NONE, LAB_TINT_GOOD, LAB_TINT_BAD, LAB_TINT_DOUBT } lab_tint;

/* What follows on `text` has that tint, if it takes colours. */
void lab_screen_tint(FILE *text, lab_tint tint);

/* Write `word`, tinted if it is a verdict: "pass", "FASTER", "refused" ... */
void lab_put_verdict(FILE *text, const char *word);

/* Write `text` and a newline, broken at spaces so that no line is longer than `width`. The first
 * line begins where the stream stands, at column `indent`; the others are indented to it. */
void lab_put_wrapped(FILE *stream, const char *text, size_t indent, size_t width);

#endif
