/* report_page_verdicts.c: how often attest wins and loses, every loss by name, and older
 * kernels separately. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

/* ------------------------------------------------------------------------- verdicts */

static void put_tally(lab_page *page, const lab_report_tally *tally) {
    const lab_report_timing *worst = &page->report->timings[tally->worst->ours];
    char title[64];
    lab_markup(
        page->out, "<tr><td>%s</td><td>%s</td><td class=\"num\">%.2f×</td>", tally->rival,
        lab_report_title(title, sizeof title, tally->group, worst->problem), tally->mean);
    for (int i = 0; i < LAB_VERDICTS; i++)
        lab_markup(page->out, "<td class=\"num %s\">%zu</td>",
                   tally->counts[i] ? lab_report_verdict_word((lab_verdict_kind)i) : "soft",
                   tally->counts[i]);
    lab_markup(page->out, "<td class=\"num soft\">%zu</td><td>", tally->unjudged);
    lab_page_bar(page, tally->counts, tally->unjudged);
    lab_markup(page->out, "</td><td class=\"num\">%.2f×</td><td>", tally->worst->speed);
    lab_page_problem(page, worst);
    lab_markup(page->out, "<br/><code class=\"soft\">%s</code></td></tr>\n", worst->kernel);
}

static const char *const tally_headings[] = {
    "against",    "problems",      "#mean", "#faster", "#slower",       "#same",
    "#ambiguous", "#medians only", "",      "#worst",  "at, by kernel",
};

enum { TALLY_COLUMNS = sizeof tally_headings / sizeof tally_headings[0] };

static bool several_devices(const lab_report_tally *tallies, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (strcmp(tallies[i].device, tallies[0].device) != 0)
            return true;
    return false;
}

static void put_row_group(lab_page *page, const char *title) {
    lab_markup(page->out,
               "</tbody><tbody><tr><th scope=\"rowgroup\" colspan=\"%d\">%s</th></tr>\n",
               TALLY_COLUMNS, title);
}

/* The tallies against rivals, or against attest itself; `found` counts the rows so far. */
static void put_tallies(lab_page *page, const lab_report_tally *tallies, size_t count,
                        bool older, bool itself, size_t *found) {
    const lab_report *r = page->report;
    const bool devices = several_devices(tallies, count);
    const char *device = NULL;
    for (size_t i = 0; i < count; i++) {
        const lab_report_tally *t = &tallies[i];
        if (t->older != older || lab_report_is_itself(&r->timings[t->worst->theirs]) != itself)
            continue;
        if (*found == 0)
            lab_page_headings(page, tally_headings, TALLY_COLUMNS);
        if (itself && !device)
            put_row_group(page, "attest against itself");
        if (devices && (!device || strcmp(t->device, device) != 0))
            put_row_group(page, t->device);
        device = t->device;
        put_tally(page, t);
        ++*found;
    }
}

void lab_page_tallies(lab_page *page, bool older) {
    lab_report_tally *tallies;
    const size_t count = lab_report_tallies(page->report, &tallies);
    size_t found = 0;
    put_tallies(page, tallies, count, older, false, &found);
    put_tallies(page, tallies, count, older, true, &found);
    if (found > 0)
        lab_markup(page->out, "</tbody></table></div>\n");
    free(tallies);
}

static bool has_pairs(const lab_report *r, bool older) {
    for (size_t i = 0; i < r->pair_count; i++)
        if (lab_report_serves(r, &r->pairs[i]) != older)
            return true;
    for (size_t i = 0; i < r->median_count; i++)
        if (lab_report_serves(r, &r->medians[i]) != older)
            return true;
    return false;
}

void lab_page_verdicts(lab_page *page) {
    const lab_report *r = page->report;
    if (!has_pairs(r, false))
        return;
    lab_page_open(page, "verdicts", "Verdicts");
    lab_markup(
        page->out,
        "<p>Mean and worst are speeds as multiples of the rival&#39;s: 2× takes half its "
        "time; means are geometric. The speed of samples that were taken in turn is the median "
        "of the ratios of each round, which can differ from the ratio of the medians. A "
        "verdict is a permutation test on the raw samples at "
        "5 %% with a minimum effect of %.0f %%, or the one that A/A runs of the same harness "
        "on the device gave. There is no verdict where a file records only medians.",
        100.0 * LAB_MINIMUM_EFFECT);
    if (has_pairs(r, true))
        lab_markup(page->out, " Kernels that a later file has replaced are under "
                              "<a href=\"#older\">Older kernels</a>.");
    if (r->superseded > 0)
        lab_markup(page->out,
                   " %zu older comparisons that a newer file repeats are not counted again.",
                   r->superseded);
    lab_markup(page->out, "</p>\n");
    lab_page_tallies(page, false);
    lab_page_close(page);
}

void lab_page_older(lab_page *page) {
    if (!has_pairs(page->report, true))
        return;
    lab_page_open(page, "older", "Older kernels");
    lab_markup(
        page->out,
        "<p>Comparisons of kernels that do not serve these problems any more: a later file "
        "has attest on the same problem by a kernel of another family.</p>\n");
    lab_page_tallies(page, true);
    lab_markup(page->out, "<details>\n<summary>Losses of older kernels</summary>\n");
    lab_page_loss_tables(page, true);
    lab_markup(page->out, "</details>\n<details>\n<summary>Problem by problem</summary>\n");
    lab_page_speed_figures(page, true);
    lab_markup(page->out, "</details>\n");
    lab_page_close(page);
}

/* --------------------------------------------------------------------------- losses */

static void put_loss(lab_page *page, const lab_report_pair *pair) {
    const lab_report_timing *ours = &page->report->timings[pair->ours];
    const lab_report_timing *theirs = &page->report->timings[pair->theirs];
    lab_markup(page->out, "<tr>");
    lab_page_verdict_cell(page, pair);
    lab_markup(page->out, "<td class=\"num\">%.2f×</td><td>", pair->speed);
    lab_page_problem(page, ours);
    lab_markup(page->out,
               "</td><td>%s</td><td><code>%s</code></td><td class=\"num\">%.2f – %.2f</td>",
               lab_report_name(theirs), ours->kernel, pair->low, pair->high);
    lab_page_time_cell(page, ours->ns.median);
    lab_page_time_cell(page, theirs->ns.median);
    lab_markup(page->out, "</tr>\n");
}

static const char *const loss_headings[] = {
    "verdict", "#speed", "problem", "against", "kernel", "#95 % interval", "#attest", "#rival",
};

/* Beyond this many, the rest is folded. */
enum { LOSSES_OPEN = 15 };

static void put_losses(lab_page *page, bool older, bool itself) {
    const lab_report_pair **losses;
    const size_t count = lab_report_losses(page->report, older, itself, &losses);
    if (count > 0 && itself)
        lab_markup(page->out, "<h3>attest against itself</h3>\n<p>An earlier version, or the "
                              "same work with other inputs.</p>\n");
    for (size_t i = 0; i < count; i++) {
        if (i == LOSSES_OPEN)
            lab_markup(page->out,
                       "</tbody></table></div>\n<details>\n<summary>%zu more</summary>\n",
                       count - i);
        if (i == 0 || i == LOSSES_OPEN)
            lab_page_headings(page, loss_headings,
                              sizeof loss_headings / sizeof loss_headings[0]);
        put_loss(page, losses[i]);
    }
    if (count > 0)
        lab_markup(page->out, "</tbody></table></div>\n");
    if (count > LOSSES_OPEN)
        lab_markup(page->out, "</details>\n");
    free(losses);
}

void lab_page_loss_tables(lab_page *page, bool older) {
    put_losses(page, older, false);
    put_losses(page, older, true);
}

/* Problems that were never timed, because their answer was wrong or no kernel supports them. */
static void put_failures(lab_page *page) {
    const lab_report *r = page->report;
    bool any = false;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        char more[LAB_REPORT_MORE];
        if (!lab_report_failure_stands(r, i, more))
            continue;
        if (!any)
            lab_markup(page->out, "<h3>Not timed</h3>\n<ul>\n");
        any = true;
        lab_markup(page->out, "<li>");
        lab_page_problem(page, t);
        lab_markup(page->out, "%s, %s%s%s: %s <span class=\"soft\">(%s)</span></li>\n", more,
                   lab_report_name(t), *t->kernel ? ", " : "", t->kernel, t->failure,
                   r->files[t->file].name);
    }
    if (any)
        lab_markup(page->out, "</ul>\n");
}

static bool has_failures(const lab_report *r) {
    for (size_t i = 0; i < r->timing_count; i++)
        if (*r->timings[i].failure)
            return true;
    return false;
}

static size_t count_losses(const lab_report *r, bool itself) {
    const lab_report_pair **losses;
    const size_t count = lab_report_losses(r, false, itself, &losses);
    free(losses);
    return count;
}

void lab_page_losses(lab_page *page) {
    const lab_report *r = page->report;
    const size_t lost = count_losses(r, false), count = lost + count_losses(r, true);
    if (r->pair_count == 0 && !has_failures(r))
        return;
    lab_page_open(page, "losses", "Losses");
    if (count == 0 && r->pair_count > 0)
        lab_markup(page->out, "<p>No comparison was lost, and none was left open.</p>\n");
    if (lost > 0)
        lab_markup(page->out,
                   "<p>Every comparison that attest lost to a rival, the worst first, then "
                   "those that the samples do not decide.</p>\n");
    lab_page_loss_tables(page, false);
    put_failures(page);
    lab_page_close(page);
}
