/* progress.c: one line, rewritten in place. */
#include "lab/base/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lab/base/clean_text.h"
#include "lab/base/clock.h"

enum { BAR_WIDTH = 24, FALLBACK_COLUMNS = 80, REDRAW_NS = 50000000 };

static const char erase_line[] = "\r\033[K";

void lab_progress_start(lab_progress *bar, FILE *stream, const char *verb, size_t total) {
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    *bar = (lab_progress){.stream = stream, .verb = verb, .total = total};
    bar->live = isatty(fileno(stream)) && term && strcmp(term, "dumb") != 0;
    bar->color = !no_color || !*no_color;
}

static int terminal_columns(FILE *stream) {
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return FALLBACK_COLUMNS;
    return size.ws_col;
}

void lab_progress_update(lab_progress *bar, size_t done, const char *what) {
    if (!bar->live)
        return;
    const uint64_t now = lab_clock_ns();
    if (bar->drawn_ns && now - bar->drawn_ns < REDRAW_NS)
        return;
    bar->drawn_ns = now;

    const size_t total = bar->total ? bar->total : 1;
    const size_t filled = (done < total ? done : total) * BAR_WIDTH / total;
    char cells[BAR_WIDTH + 1];
    memset(cells, '.', BAR_WIDTH);
    memset(cells, '#', filled);
    cells[BAR_WIDTH] = '\0';
    char counter[96];
    const int counter_width =
        snprintf(counter, sizeof counter, "%s %zu/%zu", bar->verb, done, bar->total);
    char next[256];
    snprintf(next, sizeof next, "%s", what);
    lab_clean_line(next);
    /* What is left of the line after "[bar] counter ", less one so that it never wraps. */
    const int room = terminal_columns(bar->stream) - BAR_WIDTH - counter_width - 5;
    fprintf(bar->stream, "%s%s[%s]%s %s %.*s", erase_line, bar->color ? "\033[36m" : "", cells,
            bar->color ? "\033[0m" : "", counter, room > 0 ? room : 0, next);
    fflush(bar->stream);
}

void lab_progress_end(lab_progress *bar) {
    if (bar->live && bar->drawn_ns) {
        fputs(erase_line, bar->stream);
        fflush(bar->stream);
    }
    bar->live = false;
}
