/* report_view.h: a report written for a browser, for a pull request, and for a terminal. */
#ifndef LAB_REPORT_VIEW_H
#define LAB_REPORT_VIEW_H

#include <stdio.h>

#include "lab/report/report_model.h"

/* One page that loads nothing: its style and its one script are allowed by their digests,
 * pictures are inline SVG. */
void lab_report_html(FILE *out, const lab_report *report);

/* The colours of a picture. */
typedef enum lab_theme { LAB_THEME_LIGHT, LAB_THEME_DARK, LAB_THEME_PAPER } lab_theme;

/* One plot of the page as an SVG file, by its name there, or several panels by comma-separated
 * names, side by side; "list": all names instead. False if the name does not exist; the message
 * names the nearest. */
bool lab_report_svg(FILE *out, const lab_report *report, const char *name, lab_theme theme,
                    lab_message *why);

/* Markdown: verdicts, losses, failures, history. */
void lab_report_markdown(FILE *out, const lab_report *report);

/* The same for a terminal, with plots made of characters, `columns` wide. */
void lab_report_terminal(FILE *out, const lab_report *report, size_t columns, bool color);

/* ------------------------------------------------------------- what the views share */

enum { LAB_VERDICTS = LAB_AMBIGUOUS + 1 };

/* The name of a subject in plots and tables: "cuDNN", "FlashAttention-3"; for others the
 * subject itself. */
const char *lab_report_name(const lab_report_timing *timing);

/* Whether a rival is attest: an earlier version, or the same work with other inputs. */
bool lab_report_is_itself(const lab_report_timing *rival);

/* The shape and colour of a name, the same in every plot: see lab_plot_key. */
size_t lab_report_slot(const lab_report *report, const char *name);

enum { LAB_CARD_RIVALS = 6 };

/* attest compared with the best rival of each problem, for one file, group of problems and
 * setting. */
typedef struct lab_report_card {
    size_t file;
    bool past; /* the rivals are attest: an earlier version, or other inputs */
    const char *device, *group, *variant;
    const char *problem; /* one of them */
    const char *rivals[LAB_CARD_RIVALS];
    size_t rival_count;
    size_t problems, ahead;                /* all, and those in which attest has the shorter
                                            * median */
    size_t counts[LAB_VERDICTS], unjudged; /* per verdict */
    double mean;                           /* geometric mean of the speeds */
    const lab_report_pair *worst;
} lab_report_card;

/* Forward and backward first, then the cards with the most problems, last those of attest against
 * itself; allocated. Kernels that a later file has replaced are omitted. */
size_t lab_report_cards(const lab_report *report, lab_report_card **out);

/* Whether a pair is current: no later file has replaced the kernel. */
bool lab_report_serves(const lab_report *report, const lab_report_pair *pair);

/* Comparisons with one rival on one device, for one group of problems. */
typedef struct lab_report_tally {
    const char *device, *rival, *group;
    bool older; /* of kernels that a later file has replaced */
    size_t counts[LAB_VERDICTS], unjudged, total;
    double mean;                  /* geometric mean of the speeds */
    const lab_report_pair *worst; /* the lowest speed */
} lab_report_tally;

/* The tallies in the order of the files, current ones first; *out is allocated. Returns their
 * number, also 0 if memory ran out. */
size_t lab_report_tallies(const lab_report *report, lab_report_tally **out);

/* The pairs that are SLOWER, slowest first, then those that are AMBIGUOUS, of current or of
 * `older` kernels, against rivals or against attest `itself`; allocated as above. */
size_t lab_report_losses(const lab_report *report, bool older, bool itself,
                         const lab_report_pair ***out);

/* Count pairs by verdict, current ones or all; returns their number. */
size_t lab_report_count(const lab_report *report, const lab_report_pair *pairs, size_t count,
                        bool older_too, size_t counts[LAB_VERDICTS]);

/* One sentence per check of the measurement itself, each beginning with `bullet`. */
void lab_report_measurement(FILE *out, const lab_report *report, const char *bullet);

/* "faster", "slower", "same", "ambiguous". */
const char *lab_report_verdict_word(lab_verdict_kind kind);

/* "4.26 us", "1.43 ms", with `micro` for the micro sign. */
const char *lab_report_time(char *buf, size_t n, double ns, const char *micro);

/* The problem, followed by its variant, such as "2 threads", if there is one. */
const char *lab_report_whole_label(char *buf, size_t n, const lab_report_timing *timing);

/* The same with long lists shortened, "lensk=1024×8:32768:1024×7": two problems may look alike. */
const char *lab_report_label(char *buf, size_t n, const lab_report_timing *timing);

/* The number of attestations. */
size_t lab_report_statements(const lab_report *report);

/* Saboteurs caught and in total; honest subjects passed and in total. */
typedef struct lab_report_audit {
    size_t saboteurs, caught, honest, passed;
} lab_report_audit;

lab_report_audit lab_report_audited(const lab_report *report);

/* Whether the outcome is right: a saboteur caught, an honest subject passed. */
bool lab_report_as_it_should(const lab_report_saboteur *saboteur);

/* The variant of an ablation with everything on, if timed; otherwise NULL. */
const lab_report_variant *lab_report_all_on(const lab_report_ablation *ablation);

/* What a problem computes, for readers: "gradients", "attention". */
const char *lab_report_operation(const char *problem);

/* What a group of problems is called, or one of its problems if the group has no name. */
const char *lab_report_title(char *buf, size_t n, const char *group, const char *problem);

/* Timings shown in one plot: of one device, harness and group of problems. */
typedef struct lab_report_group {
    const char *device, *group;
    const char *problem; /* one of them */
    lab_report_kind kind;
    size_t order;
} lab_report_group;

/* In the order of the cards; *out is allocated. */
size_t lab_report_groups(const lab_report *report, lab_report_group **out);
bool lab_report_in_group(const lab_report *report, const lab_report_timing *timing,
                         const lab_report_group *group);

/* False if timing `first` was timed, or if an earlier one of the same subject and file failed
 * for the same reason and represents it. Otherwise `more` says how many others there are: " and
 * 3 more", or nothing. */
enum { LAB_REPORT_MORE = 40 };
bool lab_report_failure_stands(const lab_report *report, size_t first,
                               char more[LAB_REPORT_MORE]);

#endif
