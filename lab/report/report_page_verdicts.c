/* report_page_verdicts.c: how often attest wins and loses, and every loss by name. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

/* ------------------------------------------------------------------------- verdicts */

static void put_tiles(lab_page *page) {
    static const char *const titles[LAB_VERDICTS] = {"faster", "slower", "same", "ambiguous"};
    size_t counts[LAB_VERDICTS] = {0};
    for (size_t i = 0; i < page->report->pair_count; i++)
        counts[page->report->pairs[i].verdict.kind]++;
    lab_markup(page->out, "<ul class=\"tiles\">\n");
    for (int i = 0; i < LAB_VERDICTS; i++)
        lab_markup(page->out, "<li class=\"%s\"><b>%zu</b>%s</li>\n", titles[i], counts[i],
                   titles[i]);
    lab_markup(page->out, "</ul>\n");
}

/* The counts as one bar; the numbers stand beside it. */
static void put_bar(lab_page *page, const lab_report_tally *tally) {
    double x = 0.0;
    lab_markup(page->out, "<svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" "
                          "aria-hidden=\"true\">");
    for (int i = 0; i < LAB_VERDICTS; i++) {
        const double width = 100.0 * (double)tally->counts[i] / (double)tally->total;
        if (width > 0.0)
            lab_markup(page->out,
                       "<rect class=\"%s\" x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"10\"/>",
                       lab_report_verdict_word((lab_verdict_kind)i), x, width);
        x += width;
    }
    lab_markup(page->out, "</svg>");
}

static void put_tally(lab_page *page, const lab_report_tally *tally) {
    char label[512];
    lab_markup(page->out, "<tr><td>%s</td><td>%s</td><td class=\"num\">%.2f×</td>",
               tally->rival, tally->group, tally->mean);
    for (int i = 0; i < LAB_VERDICTS; i++)
        lab_markup(page->out, "<td class=\"num %s\">%zu</td>",
                   tally->counts[i] ? lab_report_verdict_word((lab_verdict_kind)i) : "soft",
                   tally->counts[i]);
    lab_markup(page->out, "<td>");
    put_bar(page, tally);
    lab_markup(
        page->out, "</td><td>%.2f×, <code>%s</code></td></tr>\n", tally->worst->speed,
        lab_report_label(label, sizeof label, &page->report->timings[tally->worst->ours]));
}

static const char *const tally_headings[] = {
    "against", "problems", "#mean", "#faster", "#slower", "#same", "#ambiguous", "", "worst",
};

static bool several_devices(const lab_report_tally *tallies, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (strcmp(tallies[i].device, tallies[0].device) != 0)
            return true;
    return false;
}

void lab_page_verdicts(lab_page *page) {
    const lab_report *r = page->report;
    if (r->pair_count == 0)
        return;
    lab_report_tally *tallies;
    const size_t count = lab_report_tallies(r, &tallies);
    const bool devices = several_devices(tallies, count);
    lab_page_open(page, "verdicts", "Verdicts");
    put_tiles(page);
    lab_markup(
        page->out,
        "<p>%zu comparisons, each of one problem by attest and by a rival, or by attest and "
        "its baseline. A "
        "verdict is a permutation test on the raw samples at 5 %% with a minimum effect of "
        "%.0f %%, or of what A/A runs by the same harness on the device say; intervals are "
        "drawn, "
        "their overlap decides nothing.",
        r->pair_count, 100.0 * LAB_MINIMUM_EFFECT);
    if (r->superseded > 0)
        lab_markup(
            page->out,
            " %zu older comparisons that a newer file repeats are not counted again; see "
            "<a href=\"#history\">History</a>.",
            r->superseded);
    lab_markup(page->out, "</p>\n");
    lab_page_headings(page, tally_headings, 9);
    for (size_t i = 0; i < count; i++) {
        if (devices && (i == 0 || strcmp(tallies[i].device, tallies[i - 1].device) != 0))
            lab_markup(page->out, "<tr><th scope=\"rowgroup\" colspan=\"9\">%s</th></tr>\n",
                       tallies[i].device);
        put_tally(page, &tallies[i]);
    }
    lab_markup(
        page->out,
        "</tbody></table></div>\n<p class=\"soft\">Mean and worst are speeds in times of the "
        "rival&#39;s: 2× takes half its time. Means are geometric.</p>\n");
    lab_page_close(page);
    free(tallies);
}

/* --------------------------------------------------------------------------- losses */

static void put_loss(lab_page *page, const lab_report_pair *pair) {
    const lab_report_timing *ours = &page->report->timings[pair->ours];
    const lab_report_timing *theirs = &page->report->timings[pair->theirs];
    char label[512];
    lab_markup(page->out, "<tr>");
    lab_page_verdict_cell(page, pair->verdict.kind);
    lab_markup(
        page->out,
        "<td class=\"num\">%.2f×</td><td><code>%s</code><br/><span class=\"soft\">against "
        "%s</span></td><td class=\"num\">%.2f – %.2f</td>",
        pair->speed, lab_report_label(label, sizeof label, ours), theirs->subject, pair->low,
        pair->high);
    lab_page_time_cell(page, ours->ns.median);
    lab_page_time_cell(page, theirs->ns.median);
    lab_markup(page->out, "</tr>\n");
}

static const char *const loss_headings[] = {
    "verdict", "#speed", "problem", "#95 % interval", "#attest", "#rival",
};

/* Problems that were never timed, because their answer was wrong or nothing served them. */
static void put_failures(lab_page *page) {
    const lab_report *r = page->report;
    bool any = false;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        char label[512];
        if (!*t->failure)
            continue;
        if (!any)
            lab_markup(page->out, "<h3>Not timed</h3>\n<ul>\n");
        any = true;
        lab_markup(page->out,
                   "<li><code>%s</code>, %s%s%s: %s <span class=\"soft\">(%s)</span></li>\n",
                   lab_report_label(label, sizeof label, t), t->subject, *t->kernel ? ", " : "",
                   t->kernel, t->failure, r->files[t->file].name);
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

void lab_page_losses(lab_page *page) {
    if (page->report->pair_count == 0 && !has_failures(page->report))
        return;
    const lab_report_pair **losses;
    const size_t count = lab_report_losses(page->report, &losses);
    lab_page_open(page, "losses", "Losses");
    if (count == 0 && page->report->pair_count > 0)
        lab_markup(page->out, "<p>No comparison was lost, and none was left open.</p>\n");
    if (count > 0) {
        lab_markup(page->out,
                   "<p>Every comparison that attest lost, the worst first, then those "
                   "that the samples do not decide.</p>\n");
        lab_page_headings(page, loss_headings, 6);
        for (size_t i = 0; i < count; i++)
            put_loss(page, losses[i]);
        lab_markup(page->out, "</tbody></table></div>\n");
    }
    put_failures(page);
    lab_page_close(page);
    free(losses);
}
