/* report_view.h: a report written for a browser, for a pull request, and for a terminal. */
#ifndef LAB_REPORT_VIEW_H
#define LAB_REPORT_VIEW_H

#include <stdio.h>

#include "lab/report/report_model.h"

/* One page that loads nothing: no scripts, styles by their hash, pictures as inline SVG. */
void lab_report_html(FILE *out, const lab_report *report);

/* Markdown: verdicts, losses, failures, history. */
void lab_report_markdown(FILE *out, const lab_report *report);

/* The same for a terminal, with plots made of characters, `columns` wide. */
void lab_report_terminal(FILE *out, const lab_report *report, size_t columns, bool color);

/* ------------------------------------------------------------- what the views share */

enum { LAB_VERDICTS = LAB_AMBIGUOUS + 1 };

/* Comparisons with one rival on one device, of one group of problems. */
typedef struct lab_report_tally {
    const char *device, *rival, *group;
    size_t counts[LAB_VERDICTS], total;
    double mean;                  /* geometric, of the speeds */
    const lab_report_pair *worst; /* the lowest speed */
} lab_report_tally;

/* The tallies in the order of the files; *out is allocated. Returns how many there are, 0 also where memory ran out. */
size_t lab_report_tallies(const lab_report *report, lab_report_tally **out);

/* The pairs that are SLOWER, the slowest first, then those that are AMBIGUOUS; allocated as above. */
size_t lab_report_losses(const lab_report *report, const lab_report_pair ***out);

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

#endif
