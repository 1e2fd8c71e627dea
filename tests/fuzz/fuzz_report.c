/* fuzz_report.c: files of every schema in a report: as a page, as Markdown, for a terminal, and
 * judged. */
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_view.h"
#include "lab/report/standing.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    return mutate_json(data, size, most, seed);
}

/* No part of a file may become markup of the page, whose own script is its last element. */
static void check_page(const lab_report *report) {
    static const char *const markup[] = {"<img", "<iframe", "<object", "<embed"};
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
    const char *script = strcasestr(page, "<script");
    if (script && strcasestr(script + 1, "<script"))
        finding("the page has a second script%s", "");
    free(page);
}

/* Every plot as a picture. */
static void draw(const lab_report *report) {
    char *names = NULL;
    size_t length = 0;
    lab_message why;
    FILE *list = open_memstream(&names, &length);
    if (!list)
        abort();
    if (!lab_report_svg(list, report, "list", LAB_THEME_LIGHT, &why))
        finding("no list of plots: %s", why.text);
    fclose(list);
    char *rest = names, *name;
    while ((name = strsep(&rest, "\n")) != NULL)
        if (*name && !lab_report_svg(nowhere(), report, name, LAB_THEME_DARK, &why))
            finding("a plot of the list is none: %s", why.text);
    free(names);
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
    draw(&report);
    lab_report_markdown(nowhere(), &report);
    lab_report_terminal(nowhere(), &report, 80, true);
    judge(&report);
    lab_report_free(&report);
    return 0;
}
