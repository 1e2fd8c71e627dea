/* report_page_checks.c: why the measurement can be trusted, and the profiles. */
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

/* ---------------------------------------------------------------------- measurement */

static void put_check(lab_page *page, const lab_report_check *c) {
    const lab_report_file *file = &page->report->files[c->file];
    const double minimum = file->bench.minimum_effect;
    lab_markup(page->out, "<tr><td>%s</td><td>", file->device);
    if (strcmp(c->kind, "inject") == 0)
        lab_markup(page->out, "a copy slowed down by %.3g %% on purpose", 100.0 * c->slowdown);
    else
        lab_markup(page->out, "the same code twice (A/A)");
    lab_markup(
        page->out,
        "</td><td>%s</td><td class=\"num\">%.0f of %.0f</td><td class=\"num\">%.1f %%</td>",
        c->expected, c->right, c->verdicts,
        c->verdicts > 0.0 ? 100.0 * c->right / c->verdicts : 0.0);
    if (minimum > 0.0)
        lab_markup(page->out, "<td class=\"num\">%.2f %%</td>", 100.0 * minimum);
    else
        lab_markup(page->out, "<td></td>");
    lab_markup(page->out, "<td><code>%s</code></td></tr>\n", file->name);
}

static void put_checks(lab_page *page) {
    static const char *const headings[] = {
        "device", "what was compared", "right verdict", "#found",
        "#share", "#minimum effect",   "file"};
    const lab_report *r = page->report;
    lab_page_headings(page, headings, 7);
    for (size_t i = 0; i < r->check_count; i++)
        put_check(page, &r->checks[i]);
    lab_markup(page->out, "</tbody></table></div>\n");
}

static void put_audit(lab_page *page) {
    static const char *const headings[] = {"outcome", "saboteur", "what it does", "found by",
                                           "device"};
    const lab_report *r = page->report;
    const lab_report_audit audit = lab_report_audited(r);
    lab_markup(page->out,
               "<p>Kernels that cheat, run through the unmodified harness: <b>%zu of %zu "
               "caught</b>; %zu of "
               "%zu honest ones passed.</p>\n<details>\n<summary>Every saboteur as a "
               "table</summary>\n",
               audit.caught, audit.saboteurs, audit.passed, audit.honest);
    lab_page_headings(page, headings, 5);
    for (size_t i = 0; i < r->saboteur_count; i++) {
        const lab_report_saboteur *s = &r->saboteurs[i];
        lab_markup(page->out,
                   "<tr><td class=\"verdict %s\">%s</td><td>%s</td><td>%s</td><td>%s%s%s</td>"
                   "<td>%s</td></tr>\n",
                   lab_report_as_it_should(s) ? "faster" : "slower", s->outcome, s->name,
                   s->deed, s->stage, *s->stage && *s->check ? ": " : "", s->check,
                   r->files[s->file].device);
    }
    lab_markup(page->out, "</tbody></table></div>\n</details>\n");
}

void lab_page_measurement(lab_page *page) {
    const lab_report *r = page->report;
    if (r->check_count == 0 && r->saboteur_count == 0)
        return;
    lab_page_open(page, "measurement", "The measurement itself");
    if (r->check_count > 0)
        put_checks(page);
    if (r->saboteur_count > 0)
        put_audit(page);
    lab_page_close(page);
}

/* -------------------------------------------------------------------------- profiles */

void lab_page_profiles(lab_page *page) {
    static const char *const headings[] = {"kernel",     "#tensor pipe", "#DRAM",  "#L2 cache",
                                           "#occupancy", "bottleneck",   "problem"};
    const lab_report *r = page->report;
    if (r->launch_count == 0)
        return;
    lab_page_open(page, "profiles", "Under the profiler");
    lab_markup(page->out,
               "<p>Shares of what the device can do at most, by Nsight Compute. Its times are "
               "not benchmarks, and are not shown.</p>\n");
    lab_page_headings(page, headings, 7);
    for (size_t i = 0; i < r->launch_count; i++) {
        const lab_report_launch *l = &r->launches[i];
        lab_markup(page->out, "<tr><td><code>%s</code></td>", l->kernel);
        for (size_t k = 0; k < LAB_REPORT_SHARES; k++)
            if (l->shares[k] >= 0.0)
                lab_markup(page->out, "<td class=\"num\">%.0f %%</td>", l->shares[k]);
            else
                lab_markup(page->out, "<td class=\"num soft\">unavailable</td>");
        lab_markup(page->out, "<td>%s</td><td><code>%s</code></td></tr>\n", l->bottleneck,
                   l->problem);
    }
    lab_markup(page->out, "</tbody></table></div>\n");
    lab_page_close(page);
}
