/* report_page.h: the sections of the HTML page of a report. */
#ifndef LAB_REPORT_PAGE_H
#define LAB_REPORT_PAGE_H

#include "lab/report/plot.h"
#include "lab/report/report_view.h"

enum { LAB_FIGURE_NAME = 96 };

/* One plot, as shown on the page and as a separate picture: one of these is set. */
typedef struct lab_figure {
    const char *name;      /* made unique in the page; also its anchor */
    const char *otherwise; /* added to the name where it is taken; may be NULL */
    const char *caption;
    const char *device; /* for the panels: the name of a picture of some of them */
    const char *note;   /* below the caption; may be NULL */
    bool filters;       /* the page's filter applies to its rows */
    size_t columns;     /* how many of the page's four columns it takes; 0: not in a grid */
    bool beside;        /* the following text is placed beside the plot */
    const lab_plot_intervals *intervals;
    const lab_plot_roofline *roofline;
    const lab_plot_waterfall *waterfall;
    const lab_plot_curves *panels;
    size_t panel_count;
} lab_figure;

enum { LAB_PICTURE_PANELS = 8 };

/* The requested picture: a figure, or up to that many panels of figures, by comma-separated
 * names. */
typedef struct lab_picture {
    char wanted[LAB_PICTURE_PANELS][LAB_FIGURE_NAME];
    size_t wanted_count;
    FILE *out;            /* destination of a whole figure */
    double width, height; /* of the output; 0: nothing was written */
    const char *title;
    char *areas[LAB_PICTURE_PANELS], *titles[LAB_PICTURE_PANELS]; /* of the panels found */
    lab_plot_key series[LAB_PLOT_SERIES];
    size_t series_count;
} lab_picture;

typedef struct lab_page {
    FILE *out;
    const lab_report *report;
    char (*names)[LAB_FIGURE_NAME]; /* of the figures and panels so far */
    size_t name_count;
    lab_picture *picture; /* NULL: none is requested */
} lab_page;

/* The style sheet and the script of the page. They contain neither < nor &. */
void lab_page_style(FILE *out);
extern const char lab_page_script[];

/* The style sheet of a separate picture. */
void lab_picture_style(FILE *out, lab_theme theme);

/* The head of the page: what was measured, on which device and with which kernels; then how
 * attest compares. */
void lab_page_summary(lab_page *page);
void lab_page_cards(lab_page *page);

/* Each writes a whole <section>, or nothing if the report has no data for it. */
void lab_page_verdicts(lab_page *page);
void lab_page_rates(lab_page *page);
void lab_page_losses(lab_page *page);
void lab_page_speeds(lab_page *page);
void lab_page_times(lab_page *page);
void lab_page_rooflines(lab_page *page);
void lab_page_ladder(lab_page *page);
void lab_page_tiles(lab_page *page);
void lab_page_ablations(lab_page *page);
void lab_page_history(lab_page *page);
void lab_page_measurement(lab_page *page);
void lab_page_profiles(lab_page *page);
void lab_page_older(lab_page *page);
void lab_page_attestations(lab_page *page);
void lab_page_environment(lab_page *page);

/* All of them in the order of the page. */
void lab_page_sections(lab_page *page);

/* <section> with its heading; the caller's introductory paragraph follows. */
void lab_page_open(lab_page *page, const char *id, const char *title);
void lab_page_close(lab_page *page);

/* If its name is requested, draw the figure, or its requested panels, as a picture. */
void lab_picture_offer(lab_picture *picture, const lab_figure *figure, const char *name,
                       char (*panel_names)[LAB_FIGURE_NAME]);

/* "forward_fa3" of "h200/forward_fa3.json". */
const char *lab_page_stem(char *buf, size_t n, const lab_report_file *file);

/* <figure> with its caption and its plot; the caller writes "</figure>", or
 * lab_page_table_end() does. */
void lab_page_figure(lab_page *page, const lab_figure *figure);

/* A table with these headings, up to its body; a heading that begins with # is for numbers. The
 * caller writes "</tbody></table></div>". */
void lab_page_headings(lab_page *page, const char *const *headings, size_t count);

/* The same, folded below a plot; lab_page_table_end() closes it and the figure. */
void lab_page_table(lab_page *page, const char *summary, const char *const *headings,
                    size_t count);
void lab_page_table_end(lab_page *page);

/* <code> with the problem of a timing; where a list in it is shortened, the whole is its title. */
void lab_page_problem(lab_page *page, const lab_report_timing *timing);

/* A bar of the count of each verdict; the last count is of those without one. */
void lab_page_bar(lab_page *page, const size_t counts[LAB_VERDICTS], size_t unjudged);

/* A cell with the verdict: a sign, a word, a colour. */
void lab_page_verdict_cell(lab_page *page, const lab_report_pair *pair);

/* A cell with a time, and one with the interval of times. */
void lab_page_time_cell(lab_page *page, double ns);
void lab_page_interval_cell(lab_page *page, double low_ns, double high_ns);

/* The verdicts, losses and speeds of current kernels, or of older ones. */
void lab_page_tallies(lab_page *page, bool older);
void lab_page_loss_tables(lab_page *page, bool older);
void lab_page_speed_figures(lab_page *page, bool older);

/* The limits of the GPU of this name, or those that the file of a CPU records for this many
 * threads. */
typedef struct lab_page_roof {
    const char *what;
    double rate; /* per second */
    bool of_memory, measured;
} lab_page_roof;

enum { LAB_PAGE_ROOFS = 6 };

size_t lab_page_roofs(const lab_report *report, const lab_report_timing *timing,
                      lab_page_roof roofs[LAB_PAGE_ROOFS]);

#endif
