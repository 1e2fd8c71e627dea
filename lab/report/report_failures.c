/* report_failures.c: problems that were not timed, grouped by reason. */
#include <stdio.h>
#include <string.h>

#include "lab/report/report_view.h"

static bool is_same(const lab_report_timing *a, const lab_report_timing *b) {
    return *a->failure && a->file == b->file && strcmp(a->subject, b->subject) == 0 &&
           strcmp(a->failure, b->failure) == 0;
}

bool lab_report_failure_stands(const lab_report *report, size_t first,
                               char more[LAB_REPORT_MORE]) {
    const lab_report_timing *t = &report->timings[first];
    size_t others = 0;
    more[0] = '\0';
    for (size_t i = 0; i < first; i++)
        if (is_same(&report->timings[i], t))
            return false;
    for (size_t i = first + 1; i < report->timing_count; i++)
        others += is_same(&report->timings[i], t);
    if (others > 0)
        snprintf(more, LAB_REPORT_MORE, " and %zu more", others);
    return *t->failure;
}
