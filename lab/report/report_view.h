/* report_view.h: a report written for a browser, for a pull request, and for a terminal. */
#ifndef LAB_REPORT_VIEW_H
#define LAB_REPORT_VIEW_H

#include <stdio.h>

#include "lab/report/report_model.h"

/* One page that loads nothing: its style and its one script by their digests, pictures as inline SVG. */
void lab_report_html(FILE *out, const lab_report *report);

/* How a picture is coloured. */
typedef enum lab_theme { LAB_THEME_LIGHT, LAB_THEME_DARK, LAB_THEME_PAPER } lab_theme;

/* One plot of the page as an SVG file, by the name that it has there, or several panels with commas, side by side; "list": all
 * names instead. False where there is none of that name; the message names the nearest. */
bool lab_report_svg(FILE *out, const lab_report *report, const char *name, lab_theme theme,
                    lab_message *why);

/* Markdown: verdicts, losses, failures, history. */
void lab_report_markdown(FILE *out, const lab_report *report);

/* The same for a terminal, with plots made of characters, `columns` wide. */
void lab_report_terminal(FILE *out, const lab_report *report, size_t columns, bool color);

/* ------------------------------------------------------------- what the views share */

enum { LAB_VERDICTS = LAB_AMBIGUOUS + 1 };

/* What a subject is called in plots and tables: "cuDNN", "FlashAttention-3"; of others the subject itself. */
const char *lab_report_name(const lab_report_timing *timing);

/* The shape and colour of a name, the same in every plot: see lab_plot_key. */
size_t lab_report_slot(const lab_report *report, const char *name);

enum { LAB_CARD_RIVALS = 6 };

/* attest beside the best rival of each problem: of one file, group of problems and setting. */
typedef struct lab_report_card {
    size_t file;
    bool past; /* the rivals are earlier versions of attest */
    const char *device, *group, *variant;
    const char *problem; /* one of them */
    const char *rivals[LAB_CARD_RIVALS];
    size_t rival_count;
    size_t problems, ahead;                /* all, and those with the shorter median */
    size_t counts[LAB_VERDICTS], unjudged; /* by verdict */
    double mean;                           /* geometric, of the speeds */
    const lab_report_pair *worst;
} lab_report_card;

/* Those of the most problems first, those of earlier versions last; allocated. Kernels that a later file has replaced are left out. */
size_t lab_report_cards(const lab_report *report, lab_report_card **out);

/* Whether a pair is of what serves: no later file has replaced the kernel. */
bool lab_report_serves(const lab_report *report, const lab_report_pair *pair);

/* Comparisons with one rival on one device, of one group of problems. */
typedef struct lab_report_tally {
    const char *device, *rival, *group;
    bool older; /* of kernels that a later file has replaced */
    size_t counts[LAB_VERDICTS], unjudged, total;
    double mean;                  /* geometric, of the speeds */
    const lab_report_pair *worst; /* the lowest speed */
} lab_report_tally;

/* The tallies in the order of the files, of what serves first; *out is allocated. Returns how many there are, 0 also where memory ran out. */
size_t lab_report_tallies(const lab_report *report, lab_report_tally **out);

/* The pairs that are SLOWER, the slowest first, then those that are AMBIGUOUS, of what serves or of `older` kernels; allocated as
 * above. */
size_t lab_report_losses(const lab_report *report, bool older, const lab_report_pair ***out);

/* Add up pairs by verdict, of what serves or of everything; returns how many there are. */
size_t lab_report_count(const lab_report *report, const lab_report_pair *pairs, size_t count,
                        bool older_too, size_t counts[LAB_VERDICTS]);

/* One sentence per check of the measurement itself, each begun with `bullet`. */
void lab_report_measurement(FILE *out, const lab_report *report, const char *bullet);

/* "faster", "slower", "same", "ambiguous". */
const char *lab_report_verdict_word(lab_verdict_kind kind);

/* "4.26 us", "1.43 ms" with `micro` for the sign of a millionth. */
const char *lab_report_time(char *buf, size_t n, double ns, const char *micro);

/* "2 threads" after the problem, where there is a variant. */
const char *lab_report_label(char *buf, size_t n, const lab_report_timing *timing);

/* Whether attest was timed on the same problem in the same file with another kernel too: a rung of a ladder. */
bool lab_report_is_rung(const lab_report *report, const lab_report_timing *timing);

/* How many attestations there are. */
size_t lab_report_statements(const lab_report *report);

/* Saboteurs that were caught, and all of them; and so with honest subjects that passed. */
typedef struct lab_report_audit {
    size_t saboteurs, caught, honest, passed;
} lab_report_audit;

lab_report_audit lab_report_audited(const lab_report *report);

/* Whether the outcome is as it should be: a saboteur caught, an honest subject passed. */
bool lab_report_as_it_should(const lab_report_saboteur *saboteur);

/* The variant of an ablation with everything on, timed; NULL where there is none. */
const lab_report_variant *lab_report_all_on(const lab_report_ablation *ablation);

/* Timings that one plot shows: of a device, a harness and a group of problems. */
typedef struct lab_report_group {
    const char *device, *group;
    lab_report_kind kind;
} lab_report_group;

size_t lab_report_groups(const lab_report *report, lab_report_group **out);
bool lab_report_in_group(const lab_report *report, const lab_report_timing *timing,
                         const lab_report_group *group);

/* False where timing `first` was timed, or an earlier one of the same subject and file was not for the same reason and stands for it. Else
 * `more` has how many others there are: " and 3 more", or nothing. */
enum { LAB_REPORT_MORE = 40 };
bool lab_report_failure_stands(const lab_report *report, size_t first,
                               char more[LAB_REPORT_MORE]);

#endif
