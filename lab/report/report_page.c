/* report_page.c: the page of a report: its head, its frame, and the parts that sections share. */
#include "lab/report/report_page.h"

#include <stdint.h>
#include <string.h>

#include "attest.h"
#include "base/sha256.h"
#include "lab/base/markup.h"

/* ----------------------------------------------------------------------- the policy */

static unsigned hex_digit(char digit) {
    return digit <= '9' ? (unsigned)(digit - '0') : (unsigned)(digit - 'a') + 10;
}

/* The digest of the style sheet as a content policy wants it: base64 of its 32 bytes. */
static void style_digest(char out[45]) {
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char hex[ATT_SHA256_HEX];
    att_sha256 sha;
    att_sha256_begin(&sha);
    for (size_t i = 0; lab_page_style[i]; i++)
        att_sha256_add(&sha, lab_page_style[i], strlen(lab_page_style[i]));
    att_sha256_end(&sha, hex);
    unsigned char bytes[33] = {0};
    for (size_t i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
    for (size_t i = 0; i < 11; i++) {
        const uint32_t word =
            (uint32_t)bytes[3 * i] << 16 | (uint32_t)bytes[3 * i + 1] << 8 | bytes[3 * i + 2];
        for (size_t k = 0; k < 4; k++)
            out[4 * i + k] = digits[word >> (18 - 6 * k) & 63];
    }
    out[43] = '=';
    out[44] = '\0';
}

/* -------------------------------------------------------------------------- shared */

void lab_page_open(lab_page *page, const char *id, const char *title) {
    lab_markup(page->out, "<section id=\"%s\">\n<h2>%s</h2>\n", id, title);
}

void lab_page_close(lab_page *page) {
    lab_markup(page->out, "</section>\n");
}

void lab_page_figure(lab_page *page, char id[16], const char *caption) {
    snprintf(id, 16, "f%zu", ++page->figures);
    lab_markup(page->out, "<figure>\n<figcaption>%s</figcaption>\n", caption);
}

void lab_page_headings(lab_page *page, const char *const *headings, size_t count) {
    lab_markup(page->out, "<div class=\"scroll\"><table>\n<thead><tr>");
    for (size_t i = 0; i < count; i++)
        if (headings[i][0] == '#')
            lab_markup(page->out, "<th scope=\"col\" class=\"num\">%s</th>", headings[i] + 1);
        else
            lab_markup(page->out, "<th scope=\"col\">%s</th>", headings[i]);
    lab_markup(page->out, "</tr></thead>\n<tbody>\n");
}

void lab_page_table(lab_page *page, const char *summary, const char *const *headings,
                    size_t count) {
    lab_markup(page->out, "<details>\n<summary>%s</summary>\n", summary);
    lab_page_headings(page, headings, count);
}

void lab_page_table_end(lab_page *page) {
    lab_markup(page->out, "</tbody></table></div>\n</details>\n</figure>\n");
}

void lab_page_verdict_cell(lab_page *page, lab_verdict_kind kind) {
    static const char *const signs[LAB_VERDICTS] = {
        [LAB_FASTER] = "▲", [LAB_SLOWER] = "▼", [LAB_SAME] = "=", [LAB_AMBIGUOUS] = "?"};
    const char *word = lab_report_verdict_word(kind);
    lab_markup(page->out, "<td class=\"verdict %s\">%s %s</td>", word, signs[kind], word);
}

void lab_page_time_cell(lab_page *page, double ns) {
    char time[32];
    lab_markup(page->out, "<td class=\"num\">%s</td>",
               lab_report_time(time, sizeof time, ns, "µ"));
}

void lab_page_interval_cell(lab_page *page, double low_ns, double high_ns) {
    char low[32], high[32];
    lab_markup(page->out, "<td class=\"num\">%s – %s</td>",
               lab_report_time(low, sizeof low, low_ns, "µ"),
               lab_report_time(high, sizeof high, high_ns, "µ"));
}

/* ----------------------------------------------------------------------------- page */

/* The devices of the files, each once. */
static void put_devices(lab_page *page) {
    const lab_report *r = page->report;
    bool any = false;
    for (size_t i = 0; i < r->file_count; i++) {
        bool seen = !*r->files[i].device;
        for (size_t k = 0; k < i && !seen; k++)
            seen = strcmp(r->files[k].device, r->files[i].device) == 0;
        if (!seen)
            lab_markup(page->out, "%s%s", any ? " · " : "", r->files[i].device);
        any = any || !seen;
    }
}

static void put_head(lab_page *page) {
    char digest[45];
    style_digest(digest);
    lab_markup(
        page->out,
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
        "<meta charset=\"utf-8\"/>\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; "
        "style-src &#39;sha256-%s&#39;; base-uri &#39;none&#39;; form-action "
        "&#39;none&#39;\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
        "<meta name=\"generator\" content=\"attest %s\"/>\n<title>attest report: ",
        digest, att_version());
    put_devices(page);
    lab_markup(page->out, "</title>\n<style>");
    for (size_t i = 0; lab_page_style[i]; i++)
        fputs(lab_page_style[i], page->out); /* as it is: its digest stands above */
    lab_markup(page->out, "</style>\n</head>\n");
}

/* The sections that there are. */
static void put_navigation(lab_page *page) {
    const lab_report *r = page->report;
    const struct {
        const char *id, *title;
        bool there;
    } sections[] = {
        {"verdicts", "Verdicts", r->pair_count > 0},
        {"losses", "Losses", r->pair_count > 0},
        {"problems", "Problems", r->timing_count > 0},
        {"roofline", "Roofline", r->timing_count > 0},
        {"ladder", "Ladder", true},
        {"ablation", "Ablation", true},
        {"profiles", "Profiles", r->launch_count > 0},
        {"history", "History", true},
        {"measurement", "Measurement", r->check_count + r->saboteur_count > 0},
        {"attestations", "Attestations", lab_report_statements(r) > 0},
        {"environment", "Environment", true},
    };
    lab_markup(page->out, "<nav aria-label=\"Sections\">\n");
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (sections[i].there)
            lab_markup(page->out, "<a href=\"#%s\">%s</a>\n", sections[i].id,
                       sections[i].title);
    lab_markup(page->out, "</nav>\n");
}

void lab_report_html(FILE *out, const lab_report *report) {
    lab_page page = {.out = out, .report = report};
    put_head(&page);
    lab_markup(out, "<body>\n<header>\n<h1>attest report</h1>\n<p class=\"soft\">");
    put_devices(&page);
    lab_markup(out, "</p>\n");
    put_navigation(&page);
    lab_markup(out, "</header>\n<main>\n");
    lab_page_verdicts(&page);
    lab_page_losses(&page);
    lab_page_problems(&page);
    lab_page_rooflines(&page);
    lab_page_ladder(&page);
    lab_page_ablations(&page);
    lab_page_profiles(&page);
    lab_page_history(&page);
    lab_page_measurement(&page);
    lab_page_attestations(&page);
    lab_page_environment(&page);
    lab_markup(out, "</main>\n</body>\n</html>\n");
}
