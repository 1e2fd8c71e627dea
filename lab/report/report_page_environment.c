/* report_page_environment.c: the environment of the measurements, how long they took, and the
 * files. */
#include "lab/base/markup.h"
#include "lab/report/report_page.h"

static const char *or_unknown(const char *text) {
    return *text ? text : "not recorded";
}

static void put_facts(lab_page *page, const lab_report_file *file) {
    lab_markup(page->out,
               "<div>\n<h3><code>%s</code></h3>\n<dl><dt>device</dt><dd>%s</dd><dt>attest</"
               "dt><dd>%s</dd>"
               "<dt>date</dt><dd>%s</dd>\n",
               file->name, or_unknown(file->device), or_unknown(file->version),
               or_unknown(file->date));
    for (size_t i = 0; i < file->fact_count; i++)
        lab_markup(page->out, "<dt>%s</dt><dd>%s</dd>\n", file->facts[i].name,
                   file->facts[i].value);
    lab_markup(page->out, "</dl>\n</div>\n");
}

/* --------------------------------------------------------------------- time and cost */

/* `held` is 0 if it was not recorded; the cost is then that of `least`, shown as a lower
 * bound. */
static void put_cost_row(lab_page *page, const char *name, double timed, double held,
                         double least) {
    const double price = page->report->price_per_hour;
    lab_markup(page->out, "<tr><td><code>%s</code></td><td class=\"num\">%.2f</td>", name,
               timed);
    if (held > 0.0)
        lab_markup(page->out, "<td class=\"num\">%.1f</td>", held);
    else
        lab_markup(page->out, "<td class=\"num\">not recorded</td>");
    if (price > 0.0)
        lab_markup(page->out, "<td class=\"num\">%s%.4f</td>", held > 0.0 ? "" : "above ",
                   (held > 0.0 ? held : least) / 3600.0 * price);
    lab_markup(page->out, "</tr>\n");
}

static bool has_times(const lab_report_file *file) {
    return file->timed_seconds > 0.0 || file->device_seconds > 0.0;
}

static void put_cost(lab_page *page) {
    const lab_report *r = page->report;
    size_t files = 0;
    for (size_t i = 0; i < r->file_count; i++)
        files += has_times(&r->files[i]);
    if (files == 0)
        return;
    double timed = 0.0, least = 0.0;
    bool whole = true;
    char cost[64];
    const char *const headings[] = {"file", "#seconds in samples", "#device seconds", cost};
    snprintf(cost, sizeof cost, "#cost at %.2f an hour", r->price_per_hour);
    lab_markup(page->out,
               "<h3>Device time</h3>\n<p>Seconds in the samples, which is the least that "
               "a run took, and the seconds that the device was held, where the file "
               "records them.</p>\n");
    lab_page_headings(page, headings, r->price_per_hour > 0.0 ? 4 : 3);
    for (size_t i = 0; i < r->file_count; i++) {
        const lab_report_file *file = &r->files[i];
        if (!has_times(file))
            continue;
        put_cost_row(page, file->name, file->timed_seconds, file->device_seconds,
                     file->timed_seconds);
        timed += file->timed_seconds;
        least += file->device_seconds > 0.0 ? file->device_seconds : file->timed_seconds;
        whole = whole && file->device_seconds > 0.0;
    }
    put_cost_row(page, "all", timed, whole ? least : 0.0, least);
    lab_markup(page->out, "</tbody></table></div>\n");
}

/* ----------------------------------------------------------------------------- files */

/* A longer list is folded. */
enum { FILES_OPEN = 12 };

static void put_files(lab_page *page) {
    const lab_report *r = page->report;
    static const char *const headings[] = {"file", "schema", "SHA-256"};
    lab_markup(
        page->out,
        "<h3>Files</h3>\n<p>This page shows only what these files contain; their "
        "SHA-256 "
        "are those of the bytes that were read. An unsigned file shows that numbers agree with "
        "each other, not who measured them.</p>\n");
    if (r->file_count > FILES_OPEN)
        lab_markup(page->out, "<details>\n<summary>%zu files</summary>\n", r->file_count);
    lab_page_headings(page, headings, 3);
    for (size_t i = 0; i < r->file_count; i++)
        lab_markup(page->out,
                   "<tr><td><code>%s</code></td><td>%s%s</td><td><code>%s</code></td></tr>\n",
                   r->files[i].name, r->files[i].schema,
                   r->files[i].kind == LAB_REPORT_OTHER ? " (not shown)" : "",
                   r->files[i].digest);
    lab_markup(page->out, "</tbody></table></div>\n");
    if (r->file_count > FILES_OPEN)
        lab_markup(page->out, "</details>\n");
}

/* ---------------------------------------------------------------------- attestations */

static void put_statement(lab_page *page, const lab_report_file *file) {
    lab_markup(page->out,
               "<tr><td><code>%s</code></td><td>%s</td><td>%s</td><td class=\"num\">%zu</td>"
               "<td class=\"num\">%zu</td><td>",
               file->kernel, or_unknown(file->device), or_unknown(file->date), file->verified,
               file->timed);
    for (size_t i = 0; i < file->fact_count; i++)
        lab_markup(page->out, "%s<code>%s</code> <code>%s</code>", i > 0 ? ", " : "",
                   file->facts[i].name, file->facts[i].value);
    lab_markup(page->out, "</td></tr>\n");
}

void lab_page_attestations(lab_page *page) {
    static const char *const headings[] = {"kernel",    "device", "made",
                                           "#verified", "#timed", "digests of what ran"};
    const lab_report *r = page->report;
    const size_t count = lab_report_statements(r);
    if (count == 0)
        return;
    lab_page_open(page, "attestations", "Attestations");
    lab_markup(page->out,
               "<p>Statements of <code>attest certify</code> among the files: %zu. Each binds "
               "the problems "
               "verified and timed to the digest of a kernel&#39;s code; "
               "<code class=\"keep\">attest certify --check</code> compares them with your "
               "build.</p>\n"
               "<details>\n<summary>Every statement as a table</summary>\n",
               count);
    lab_page_headings(page, headings, 6);
    for (size_t i = 0; i < r->file_count; i++)
        if (r->files[i].kind == LAB_REPORT_STATEMENT)
            put_statement(page, &r->files[i]);
    lab_markup(page->out, "</tbody></table></div>\n</details>\n");
    lab_page_close(page);
}

void lab_page_environment(lab_page *page) {
    lab_page_open(page, "environment", "Environment");
    lab_markup(page->out, "<div class=\"figures\">\n");
    for (size_t i = 0; i < page->report->file_count; i++)
        if (page->report->files[i].kind != LAB_REPORT_OTHER &&
            page->report->files[i].kind != LAB_REPORT_STATEMENT)
            put_facts(page, &page->report->files[i]);
    lab_markup(page->out, "</div>\n");
    put_cost(page);
    put_files(page);
    lab_page_close(page);
}
