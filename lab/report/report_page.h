/* report_page.h: the sections of the HTML page of a report. */
#ifndef LAB_REPORT_PAGE_H
#define LAB_REPORT_PAGE_H

#include "lab/report/plot.h"
#include "lab/report/report_view.h"

typedef struct lab_page {
    FILE *out;
    const lab_report *report;
    size_t figures; /* drawn so far: their ids are numbered */
} lab_page;

/* The style sheet, in parts; ends with NULL. It holds neither < nor &. */
extern const char *const lab_page_style[];

/* Each writes a whole <section>, or nothing where the report has nothing for it. */
void lab_page_verdicts(lab_page *page);
void lab_page_losses(lab_page *page);
void lab_page_problems(lab_page *page);
void lab_page_rooflines(lab_page *page);
void lab_page_ladder(lab_page *page);
void lab_page_ablations(lab_page *page);
void lab_page_history(lab_page *page);
void lab_page_measurement(lab_page *page);
void lab_page_profiles(lab_page *page);
void lab_page_attestations(lab_page *page);
void lab_page_environment(lab_page *page);

/* <section> with its heading; what it is about, in one paragraph of the caller's, follows. */
void lab_page_open(lab_page *page, const char *id, const char *title);
void lab_page_close(lab_page *page);

/* The beginning of <figure> with its caption; `id`, of 16 bytes, becomes that of the next plot. */
void lab_page_figure(lab_page *page, char id[16], const char *caption);

/* A table with these headings, up to its body; a heading that begins with # is of numbers. "</tbody></table></div>" is
 * the caller's to write. */
void lab_page_headings(lab_page *page, const char *const *headings, size_t count);

/* The same, to be unfolded below a plot; lab_page_table_end() closes it, and the figure. */
void lab_page_table(lab_page *page, const char *summary, const char *const *headings,
                    size_t count);
void lab_page_table_end(lab_page *page);

/* A cell with the verdict: a sign, a word, a colour. */
void lab_page_verdict_cell(lab_page *page, lab_verdict_kind kind);

/* A cell with a time, and one with the interval of times. */
void lab_page_time_cell(lab_page *page, double ns);
void lab_page_interval_cell(lab_page *page, double low_ns, double high_ns);

#endif
