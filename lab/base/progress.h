/* progress.h: a progress bar on a terminal; nothing at all anywhere else. */
#ifndef LAB_PROGRESS_H
#define LAB_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct lab_progress {
    FILE *stream;
    bool live;  /* the stream is a terminal that can rewrite a line */
    bool color; /* NO_COLOR is not set */
    const char *verb;
    size_t total;
    uint64_t drawn_ns;
} lab_progress;

/* Begin a bar of `total` steps. Draws only where `stream` is a terminal and TERM is not "dumb";
 * honours NO_COLOR. `verb` ("verifying") must live until the end. */
void lab_progress_start(lab_progress *bar, FILE *stream, const char *verb, size_t total);

/* `done` steps are finished and `what` is next. Redraws at most 20 times a second. */
void lab_progress_update(lab_progress *bar, size_t done, const char *what);

/* Erase the bar. */
void lab_progress_end(lab_progress *bar);

#endif
