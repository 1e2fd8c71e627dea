/* report_sentences.c: sentences that Markdown and the terminal share. */
#include <string.h>

#include "lab/report/report_view.h"

size_t lab_report_count(const lab_report *r, const lab_report_pair *pairs, size_t count,
                        bool older_too, size_t counts[LAB_VERDICTS]) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        if (older_too || lab_report_serves(r, &pairs[i])) {
            counts[pairs[i].verdict.kind]++;
            total++;
        }
    return total;
}

void lab_report_measurement(FILE *out, const lab_report *r, const char *bullet) {
    for (size_t i = 0; i < r->check_count; i++) {
        const lab_report_check *c = &r->checks[i];
        if (strcmp(c->kind, "inject") == 0)
            fprintf(out, "%s%.3g %% slower on purpose: found in %.0f of %.0f\n", bullet,
                    100.0 * c->slowdown, c->right, c->verdicts);
        else
            fprintf(out, "%sthe same code twice (A/A): the same in %.0f of %.0f\n", bullet,
                    c->right, c->verdicts);
    }
    if (r->saboteur_count > 0) {
        const lab_report_audit audit = lab_report_audited(r);
        fprintf(out, "%ssaboteurs: %zu of %zu caught\n", bullet, audit.caught, audit.saboteurs);
        fprintf(out, "%shonest subjects: %zu of %zu passed\n", bullet, audit.passed,
                audit.honest);
    }
}
