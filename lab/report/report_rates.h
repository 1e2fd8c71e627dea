/* report_rates.h: problems that differ only in their length, as curves. */
#ifndef LAB_REPORT_RATES_H
#define LAB_REPORT_RATES_H

#include "lab/report/report_page.h"

enum { LAB_FAMILY_KEY = 200, LAB_FAMILY_CEILINGS = 2, LAB_FAMILY_NOTE = 320 };

/* One plot: problems that differ only in their length, or also in the batch if its product with
 * the length is constant. */
typedef struct lab_family {
    size_t file, first; /* the first timing of its group: groups are in the order of the file */
    const char *group, *variant;
    char key[LAB_FAMILY_KEY], name[LAB_FAMILY_KEY + 40], title[2 * LAB_FAMILY_KEY];
    lab_plot_key *series;
    lab_plot_spot *spots;
    char (*notes)[LAB_FAMILY_NOTE];
    const lab_report_timing **timings; /* of each spot */
    lab_plot_ceiling ceilings[LAB_FAMILY_CEILINGS];
    char ceiling_names[LAB_FAMILY_CEILINGS][64];
    bool memory; /* bytes per second, not operations */
    lab_plot_curves plot;
} lab_family;

/* Every family with enough lengths to draw, in the order of the timings; *out is allocated, and
 * each is freed with lab_family_free(). */
size_t lab_families_find(const lab_report *report, lab_family **out);
void lab_family_free(lab_family *family);

/* Fill its plot: rates, ceilings, notes. */
void lab_family_finish(lab_family *family, const lab_report *report);

#endif
