/* fuzz_report.c: files of every schema in a report: as a page, as Markdown, for a terminal, and judged. */
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_view.h"
#include "lab/report/standing.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    return mutate_json(data, size, most, seed);
}

/* Nothing of a file may become markup of the page. */
static void check_page(const lab_report *report) {
    static const char *const markup[] = {"<script", "<img", "<iframe", "<object", "<embed"};
    char *page = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&page, &length);
    if (!stream)
        abort();
    lab_report_html(stream, report);
    fclose(stream);
    for (size_t i = 0; i < sizeof markup / sizeof markup[0]; i++)
        if (strcasestr(page, markup[i]))
            finding("the page has %s", markup[i]);
    free(page);
}

static void judge(lab_report *report) {
    lab_standing standing;
    lab_message why;
    memset(&why, 0, sizeof why);
    if (!lab_standing_of(&standing, report, LAB_GOALS_FLASH | LAB_GOALS_HOPPER | LAB_GOALS_CPU,
                         &why)) {
        check_message(&why);
        return;
    }
    lab_standing_table(nowhere(), report);
    lab_standing_lines(nowhere(), &standing);
    json_decref(lab_json_standing(&standing));
    lab_standing_free(&standing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_report report;
    lab_message why;
    const char *path = input_file(0, data, size);
    memset(&why, 0, sizeof why);
    if (!lab_report_make(&report, &path, 1, &why)) {
        check_message(&why);
        return 0;
    }
    check_page(&report);
    lab_report_markdown(nowhere(), &report);
    lab_report_terminal(nowhere(), &report, 80, true);
    judge(&report);
    lab_report_free(&report);
    return 0;
}
