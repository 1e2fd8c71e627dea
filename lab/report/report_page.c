/* report_page.c: the page of a report: its head, its content policy, its sections, and the
 * parts that they share. */
#include "lab/report/report_page.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "attest.h"
#include "base/sha256.h"
#include "lab/base/markup.h"
#include "lab/problem/spec.h"

/* ----------------------------------------------------------------------- the policy */

static unsigned hex_digit(char digit) {
    return digit <= '9' ? (unsigned)(digit - '0') : (unsigned)(digit - 'a') + 10;
}

/* A SHA-256 in the form of a content security policy: base64 of its 32 bytes. */
static void policy_digest(const char *text, size_t length, char out[45]) {
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char hex[ATT_SHA256_HEX];
    att_sha256_of(text, length, hex);
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

void lab_page_headings(lab_page *page, const char *const *headings, size_t count) {
    lab_markup(page->out, "<div class=\"scroll\"><table class=\"sorts\">\n<thead><tr>");
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

/* A longer problem may be cut off by its column. */
enum { TITLE_FROM = 40 };

void lab_page_problem(lab_page *page, const lab_report_timing *timing) {
    char label[512], whole[LAB_SPEC_MAX + 64];
    lab_report_label(label, sizeof label, timing);
    lab_report_whole_label(whole, sizeof whole, timing);
    if (strcmp(label, whole) == 0 && strlen(label) < TITLE_FROM)
        lab_markup(page->out, "<code>%s</code>", label);
    else
        lab_markup(page->out, "<code title=\"%s\">%s</code>", whole, label);
}

void lab_page_bar(lab_page *page, const size_t counts[LAB_VERDICTS], size_t unjudged) {
    double x = 0.0, total = (double)unjudged;
    for (int i = 0; i < LAB_VERDICTS; i++)
        total += (double)counts[i];
    lab_markup(page->out, "<svg class=\"bar\" viewBox=\"0 0 100 10\" "
                          "preserveAspectRatio=\"none\" aria-hidden=\"true\">");
    for (int i = 0; i <= LAB_VERDICTS; i++) {
        const double width = 100.0 * (double)(i < LAB_VERDICTS ? counts[i] : unjudged) /
                             (total > 0.0 ? total : 1.0);
        if (width > 0.0)
            lab_markup(
                page->out,
                "<rect class=\"%s\" x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"10\"/>",
                i < LAB_VERDICTS ? lab_report_verdict_word((lab_verdict_kind)i) : "unjudged", x,
                width);
        x += width;
    }
    lab_markup(page->out, "</svg>");
}

void lab_page_verdict_cell(lab_page *page, const lab_report_pair *pair) {
    static const char *const signs[LAB_VERDICTS] = {
        [LAB_FASTER] = "▲", [LAB_SLOWER] = "▼", [LAB_SAME] = "=", [LAB_AMBIGUOUS] = "?"};
    const char *word = lab_report_verdict_word(pair->verdict.kind);
    if (pair->unjudged)
        lab_markup(page->out, "<td class=\"soft\">medians only</td>");
    else
        lab_markup(page->out, "<td class=\"verdict %s\">%s %s</td>", word,
                   signs[pair->verdict.kind], word);
}

void lab_page_time_cell(lab_page *page, double ns) {
    char time[32];
    lab_markup(page->out, "<td class=\"num\" data-v=\"%.6g\">%s</td>", ns,
               lab_report_time(time, sizeof time, ns, "µ"));
}

void lab_page_interval_cell(lab_page *page, double low_ns, double high_ns) {
    char low[32], high[32];
    lab_markup(page->out, "<td class=\"num\" data-v=\"%.6g\">%s – %s</td>", low_ns,
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

static void put_style(lab_page *page, const char *style) {
    lab_markup(page->out, "</title>\n<style>");
    fputs(style, page->out); /* unescaped: its digest is above, like that of the script */
    lab_markup(page->out, "</style>\n</head>\n");
}

static void put_head(lab_page *page, const char *style, size_t length) {
    char of_style[45], of_script[45];
    policy_digest(style, length, of_style);
    policy_digest(lab_page_script, strlen(lab_page_script), of_script);
    lab_markup(
        page->out,
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
        "<meta charset=\"utf-8\"/>\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; "
        "style-src &#39;sha256-%s&#39;; script-src &#39;sha256-%s&#39;; base-uri "
        "&#39;none&#39;; "
        "form-action &#39;none&#39;\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
        "<meta name=\"generator\" content=\"attest %s\"/>\n<title>attest report: ",
        of_style, of_script, att_version());
    put_devices(page);
    put_style(page, style);
}

typedef struct page_section {
    const char *id, *title;
    void (*put)(lab_page *page);
} page_section;

static const page_section sections[] = {
    {"verdicts", "Verdicts", lab_page_verdicts},
    {"rates", "Speed over length", lab_page_rates},
    {"losses", "Losses", lab_page_losses},
    {"speeds", "Problem by problem", lab_page_speeds},
    {"times", "Times", lab_page_times},
    {"roofline", "Roofline", lab_page_rooflines},
    {"ladder", "Ladder", lab_page_ladder},
    {"tiles", "Tiles", lab_page_tiles},
    {"ablation", "Ablation", lab_page_ablations},
    {"profiles", "Profiles", lab_page_profiles},
    {"history", "History", lab_page_history},
    {"older", "Older kernels", lab_page_older},
    {"measurement", "Measurement", lab_page_measurement},
    {"attestations", "Attestations", lab_page_attestations},
    {"environment", "Environment", lab_page_environment},
};

enum { SECTIONS = sizeof sections / sizeof sections[0] };

void lab_page_sections(lab_page *page) {
    for (size_t i = 0; i < SECTIONS; i++)
        sections[i].put(page);
}

/* Links to the sections that are not empty. */
static void put_navigation(lab_page *page, const char *body) {
    lab_markup(page->out, "<nav aria-label=\"Sections\">\n");
    for (size_t i = 0; i < SECTIONS; i++) {
        char opening[64];
        snprintf(opening, sizeof opening, "<section id=\"%s\">", sections[i].id);
        if (strstr(body, opening))
            lab_markup(page->out, "<a href=\"#%s\">%s</a>\n", sections[i].id,
                       sections[i].title);
    }
    lab_markup(page->out, "</nav>\n");
}

static void put_page(lab_page *page, const char *style, size_t style_length, const char *body) {
    put_head(page, style, style_length);
    lab_markup(page->out, "<body>\n<header>\n<h1>attest report</h1>\n");
    lab_page_summary(page);
    put_navigation(page, body);
    lab_page_cards(page);
    lab_markup(page->out, "</header>\n<main>\n");
    fputs(body, page->out);
    lab_markup(page->out, "</main>\n<script>");
    fputs(lab_page_script, page->out);
    lab_markup(page->out, "</script>\n</body>\n</html>\n");
}

void lab_report_html(FILE *out, const lab_report *report) {
    char *style = NULL, *body = NULL;
    size_t style_length = 0, body_length = 0;
    FILE *to_style = open_memstream(&style, &style_length),
         *to_body = open_memstream(&body, &body_length);
    lab_page page = {.out = to_body, .report = report};
    if (to_style && to_body) {
        lab_page_style(to_style);
        lab_page_sections(&page);
    }
    const bool whole = to_style && fclose(to_style) == 0;
    if (to_body && fclose(to_body) == 0 && whole) {
        page.out = out;
        put_page(&page, style, style_length, body);
    }
    free(page.names);
    free(style);
    free(body);
}
