/* report_page.h: the sections of the HTML page of a report. */
#ifndef LAB_REPORT_PAGE_H
#define LAB_REPORT_PAGE_H

#include "lab/report/plot.h"
#include "lab/report/report_view.h"

enum { LAB_FIGURE_NAME = 64 };

/* One plot, as the page shows it and as a picture of its own: one of these is set. */
typedef struct lab_figure {
    const char *name; /* made into one that is unique in the page, and its anchor */
    const char *caption;
    const char *device; /* of the panels: what a picture of some of them is called */
    const char *note;   /* below the caption; may be NULL */
    bool filters;       /* its rows answer to the page's filter */
    size_t columns;     /* of the page's four that it takes; 0: it stands in no grid */
    bool beside;        /* what follows it stands beside the plot */
    const lab_plot_intervals *intervals;
    const lab_plot_roofline *roofline;
    const lab_plot_waterfall *waterfall;
    const lab_plot_curves *panels;
    size_t panel_count;
} lab_figure;

enum { LAB_PICTURE_PANELS = 8 };

/* What is asked for as a picture of its own: a figure, or up to so many panels of figures, by their names with commas. */
typedef struct lab_picture {
    char wanted[LAB_PICTURE_PANELS][LAB_FIGURE_NAME];
    size_t wanted_count;
    FILE *out;            /* a whole figure is written there */
    double width, height; /* of what was written; 0: nothing was */
    const char *title;
    char *areas[LAB_PICTURE_PANELS], *titles[LAB_PICTURE_PANELS]; /* of panels, where found */
    lab_plot_key series[LAB_PLOT_SERIES];
    size_t series_count;
} lab_picture;

typedef struct lab_page {
    FILE *out;
    const lab_report *report;
    char (*names)[LAB_FIGURE_NAME]; /* of the figures and their panels so far */
    size_t name_count;
    lab_picture *picture; /* NULL: none is asked for */
} lab_page;

/* The style sheet and the script of the page. They hold neither < nor &. */
void lab_page_style(FILE *out);
extern const char lab_page_script[];

/* The style sheet of a picture on its own. */
void lab_picture_style(FILE *out, lab_theme theme);

/* The head of the page: what was measured, on what and by which kernels; then where attest stands. */
void lab_page_summary(lab_page *page);
void lab_page_cards(lab_page *page);

/* Each writes a whole <section>, or nothing where the report has nothing for it. */
void lab_page_verdicts(lab_page *page);
void lab_page_rates(lab_page *page);
void lab_page_losses(lab_page *page);
void lab_page_speeds(lab_page *page);
void lab_page_times(lab_page *page);
void lab_page_rooflines(lab_page *page);
void lab_page_ladder(lab_page *page);
void lab_page_ablations(lab_page *page);
void lab_page_history(lab_page *page);
void lab_page_measurement(lab_page *page);
void lab_page_profiles(lab_page *page);
void lab_page_older(lab_page *page);
void lab_page_attestations(lab_page *page);
void lab_page_environment(lab_page *page);

/* All of them in the order of the page. */
void lab_page_sections(lab_page *page);

/* <section> with its heading; what it is about, in one paragraph of the caller's, follows. */
void lab_page_open(lab_page *page, const char *id, const char *title);
void lab_page_close(lab_page *page);

/* Draw the figure, or those of its panels that are asked for, as a picture, where its name is wanted. */
void lab_picture_offer(lab_picture *picture, const lab_figure *figure, const char *name,
                       char (*panel_names)[LAB_FIGURE_NAME]);

/* <figure> with its caption and its plot; "</figure>" is the caller's to write, or lab_page_table_end()'s. */
void lab_page_figure(lab_page *page, const lab_figure *figure);

/* A table with these headings, up to its body; a heading that begins with # is of numbers. "</tbody></table></div>" is
 * the caller's to write. */
void lab_page_headings(lab_page *page, const char *const *headings, size_t count);

/* The same, to be unfolded below a plot; lab_page_table_end() closes it, and the figure. */
void lab_page_table(lab_page *page, const char *summary, const char *const *headings,
                    size_t count);
void lab_page_table_end(lab_page *page);

/* A bar of so many of each verdict, the last being those without one. */
void lab_page_bar(lab_page *page, const size_t counts[LAB_VERDICTS], size_t unjudged);

/* A cell with the verdict: a sign, a word, a colour. */
void lab_page_verdict_cell(lab_page *page, const lab_report_pair *pair);

/* A cell with a time, and one with the interval of times. */
void lab_page_time_cell(lab_page *page, double ns);
void lab_page_interval_cell(lab_page *page, double low_ns, double high_ns);

/* The verdicts, the losses and the speeds of what serves, or of older kernels. */
void lab_page_tallies(lab_page *page, bool older);
void lab_page_loss_table(lab_page *page, bool older);
void lab_page_speed_figures(lab_page *page, bool older);

/* The limits of the GPU of this name, or those that the file of a CPU records for this many threads. */
typedef struct lab_page_roof {
    const char *what;
    double rate; /* per second */
    bool of_memory, measured;
} lab_page_roof;

enum { LAB_PAGE_ROOFS = 6 };

size_t lab_page_roofs(const lab_report *report, const lab_report_timing *timing,
                      lab_page_roof roofs[LAB_PAGE_ROOFS]);

#endif
