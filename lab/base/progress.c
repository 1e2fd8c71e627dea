/* progress.c: one line, rewritten in place, or a new one each minute. */
#include "lab/base/progress.h"

#include <string.h>
#include <sys/ioctl.h>

#include "lab/base/clean_text.h"
#include "lab/base/clock.h"
#include "lab/base/screen.h"

enum { BAR_WIDTH = 24, FALLBACK_COLUMNS = 80, REDRAW_NS = 50000000 };

static const uint64_t minute_ns = 60000000000u;
static const double estimate_after = 2.0; /* seconds; earlier, a slow first step would
                                           * mislead */

static const char erase_line[] = "\r\033[K";

void lab_progress_start(lab_progress *bar, FILE *stream, const char *verb, size_t total) {
    *bar = (lab_progress){.stream = stream,
                          .verb = verb,
                          .total = total,
                          .start_ns = lab_clock_ns(),
                          .line_ns = minute_ns};
    bar->live = lab_screen_is_live(stream);
    bar->color = lab_screen_has_color(stream);
}

static int terminal_columns(FILE *stream) {
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return FALLBACK_COLUMNS;
    return size.ws_col;
}

const char *lab_progress_left(char buf[LAB_LEFT_MAX], double elapsed, size_t done,
                              size_t total) {
    buf[0] = '\0';
    if (done == 0 || done >= total || elapsed < estimate_after)
        return buf;
    const double left = elapsed / (double)done * (double)(total - done);
    if (left < 99.5)
        snprintf(buf, LAB_LEFT_MAX, "about %.0f s left", left < 1.0 ? 1.0 : left);
    else if (left < 5970.0) /* 99.5 minutes */
        snprintf(buf, LAB_LEFT_MAX, "about %.0f min left", left / 60.0);
    else if (left < 1e9)
        snprintf(buf, LAB_LEFT_MAX, "about %.1f h left", left / 3600.0);
    return buf;
}

static void draw_bar(const lab_progress *bar, size_t done, const char *left, const char *next) {
    const size_t total = bar->total ? bar->total : 1;
    const size_t filled = (done < total ? done : total) * BAR_WIDTH / total;
    char cells[BAR_WIDTH + 1], counter[160];
    memset(cells, '.', BAR_WIDTH);
    memset(cells, '#', filled);
    cells[BAR_WIDTH] = '\0';
    const int counter_width = snprintf(counter, sizeof counter, "%s %zu/%zu%s%s", bar->verb,
                                       done, bar->total, *left ? ", " : "", left);
    /* The columns left after "[bar] counter ", less one so that the line never wraps. */
    const int columns = terminal_columns(bar->stream);
    const int room = columns - BAR_WIDTH - counter_width - 5;
    fprintf(bar->stream, "%s%s[%s]%s %.*s %.*s", erase_line, bar->color ? "\033[36m" : "",
            cells, bar->color ? "\033[0m" : "",
            columns > BAR_WIDTH + 5 ? columns - BAR_WIDTH - 5 : 0, counter, room > 0 ? room : 0,
            next);
}

void lab_progress_update(lab_progress *bar, size_t done, const char *what) {
    const uint64_t now = lab_clock_ns();
    const uint64_t last = bar->drawn_ns || bar->live ? bar->drawn_ns : bar->start_ns;
    if (!bar->stream || (last && now - last < (bar->live ? REDRAW_NS : bar->line_ns)))
        return;
    bar->drawn_ns = now;
    char next[256], left[LAB_LEFT_MAX];
    snprintf(next, sizeof next, "%s", what);
    lab_clean_line(next);
    left[0] = '\0';
    if (!strstr(next, " s of about ")) /* `what` may have a better estimate of its own */
        lab_progress_left(left, 1e-9 * (double)(now - bar->start_ns), done, bar->total);
    if (bar->live)
        draw_bar(bar, done, left, next);
    else
        fprintf(bar->stream, "%s: %zu of %zu%s%s; %s\n", bar->verb, done, bar->total,
                *left ? ", " : "", left, next);
    fflush(bar->stream);
}

void lab_progress_end(lab_progress *bar) {
    if (bar->live && bar->drawn_ns) {
        fputs(erase_line, bar->stream);
        fflush(bar->stream);
    }
    bar->live = false;
    bar->stream = NULL;
}
