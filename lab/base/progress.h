/* progress.h: on a terminal a progress bar with an estimate; elsewhere one line per minute. */
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
    uint64_t start_ns, drawn_ns;
    uint64_t line_ns; /* interval between lines if the stream is not a terminal */
} lab_progress;

enum { LAB_LEFT_MAX = 48 };

/* "about 40 s left" after `elapsed` seconds for `done` steps of `total`; "" if it is too early
 * to tell, or nothing is left. */
const char *lab_progress_left(char buf[LAB_LEFT_MAX], double elapsed, size_t done,
                              size_t total);

/* Begin a bar of `total` steps. If `stream` is not a terminal, or TERM is "dumb", work of more
 * than a minute prints its position once per minute, on a new line. Honours NO_COLOR. `verb`
 * ("verifying") must stay valid until the end. */
void lab_progress_start(lab_progress *bar, FILE *stream, const char *verb, size_t total);

/* `done` steps are finished and `what` is next. Redraws at most 20 times per second. If `what`
 * contains its own estimate, "3 s of about 8", only that one is shown. */
void lab_progress_update(lab_progress *bar, size_t done, const char *what);

/* Erase the bar; lines stay. */
void lab_progress_end(lab_progress *bar);

#endif
