/* report_label.c: the name of a timing: its problem, and what else it was measured under. */
#include <stdio.h>
#include <string.h>

#include "lab/report/report_view.h"

/* A list of at most LIST_WHOLE values is shown whole. Equal neighbours, RUN_LEAST at least, are
 * shown once, with their number; what is longer still ends after SHOWN of them. */
enum { LIST_WHOLE = 4, RUN_LEAST = 3, SHOWN = 4 };

static const char digits[] = "0123456789";

/* The number of values of "5:0:17" at the beginning of `text`, and its length; 0: no list. */
static size_t list_at(const char *text, size_t *length) {
    size_t count = 0;
    *length = 0;
    for (;;) {
        const size_t own = strspn(text + *length, digits);
        if (own == 0)
            return 0;
        *length += own;
        count++;
        if (text[*length] != ':')
            return count;
        ++*length;
    }
}

static size_t put(char *buf, size_t n, size_t used, const char *text, size_t length) {
    if (used < n)
        used += (size_t)snprintf(buf + used, n - used, "%.*s", (int)length, text);
    return used;
}

/* "1024×8:32768:1024×7" of the list of `count` values at `text`. */
static size_t put_list(char *buf, size_t n, size_t used, const char *text, size_t count) {
    size_t shown = 0;
    for (size_t i = 0; i < count && used < n; shown++) {
        const size_t own = strspn(text, digits);
        size_t run = 0;
        const char *next = text;
        while (i + run < count && strspn(next, digits) == own && memcmp(next, text, own) == 0) {
            next += own + 1;
            run++;
        }
        if (shown == SHOWN && i + run < count) {
            used += (size_t)snprintf(buf + used, n - used, ":… %zu values", count);
            return used;
        }
        if (run < RUN_LEAST) {
            run = 1;
            next = text + own + 1;
        }
        used = put(buf, n, used, ":", i > 0);
        used = put(buf, n, used, text, own);
        if (run > 1 && used < n)
            used += (size_t)snprintf(buf + used, n - used, "×%zu", run);
        i += run;
        text = next;
    }
    return used;
}

const char *lab_report_whole_label(char *buf, size_t n, const lab_report_timing *timing) {
    snprintf(buf, n, "%s%s%s", timing->problem, *timing->variant ? ", " : "", timing->variant);
    return buf;
}

const char *lab_report_label(char *buf, size_t n, const lab_report_timing *timing) {
    const char *text = timing->problem;
    size_t used = 0;
    while (*text && used < n) {
        const size_t before = strcspn(text, "=") + (strchr(text, '=') != NULL);
        size_t length;
        used = put(buf, n, used, text, before);
        text += before;
        const size_t count = list_at(text, &length);
        if (count > LIST_WHOLE)
            used = put_list(buf, n, used, text, count);
        else
            used = put(buf, n, used, text, length);
        text += length;
    }
    if (used < n)
        snprintf(buf + used, n - used, "%s%s", *timing->variant ? ", " : "", timing->variant);
    return buf;
}
