/* report_page_summary.c: the head of the page: what was measured, on which device, with which
 * kernels, and how attest compares. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

/* Names in the order of first occurrence, each once. */
typedef struct names {
    const char **list;
    size_t count;
} names;

static void add_name(names *n, const char *name) {
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->list[i], name) == 0)
            return;
    n->list[n->count++] = name;
}

static bool names_make(names *n, size_t most) {
    *n = (names){.list = calloc(most + 1, sizeof *n->list)};
    return n->list != NULL;
}

static void put_names(lab_page *page, const char *title, const names *n) {
    if (n->count == 0)
        return;
    lab_markup(page->out, "<dt>%s</dt><dd>", title);
    for (size_t i = 0; i < n->count; i++)
        lab_markup(page->out, "%s%s", i > 0 ? " · " : "", n->list[i]);
    lab_markup(page->out, "</dd>\n");
}

/* "backward" of "backward:b1h8s512d64"; attention has no prefix. */
static const char *operation_of(const char *problem) {
    static const struct {
        const char *prefix, *name;
    } operations[] = {
        {"backward:", "gradients"}, {"merge:", "merging"}, {"moe:", "mixtures of experts"}};
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        if (strncmp(problem, operations[i].prefix, strlen(operations[i].prefix)) == 0)
            return operations[i].name;
    return "attention";
}

static void put_measured(lab_page *page) {
    const lab_report *r = page->report;
    names problems, operations;
    if (r->timing_count == 0 || !names_make(&problems, r->timing_count))
        return;
    if (names_make(&operations, r->timing_count)) {
        for (size_t i = 0; i < r->timing_count; i++)
            add_name(&problems, r->timings[i].problem);
        for (size_t i = 0; i < problems.count; i++)
            add_name(&operations, operation_of(problems.list[i]));
        lab_markup(page->out, "<dt>measured</dt><dd>%zu problem%s of ", problems.count,
                   problems.count == 1 ? "" : "s");
        for (size_t i = 0; i < operations.count; i++)
            lab_markup(page->out, "%s%s", i > 0 ? ", " : "", operations.list[i]);
        lab_markup(page->out, " in %zu timing%s</dd>\n", r->timing_count,
                   r->timing_count == 1 ? "" : "s");
        free(operations.list);
    }
    free(problems.list);
}

static void put_devices(lab_page *page) {
    const lab_report *r = page->report;
    names devices;
    if (!names_make(&devices, r->file_count))
        return;
    for (size_t i = 0; i < r->file_count; i++)
        if (*r->files[i].device)
            add_name(&devices, r->files[i].device);
    put_names(page, "on", &devices);
    free(devices.list);
}

/* Kernels of attest, current ones before those that a later file has replaced. */
static void put_kernels(lab_page *page) {
    const lab_report *r = page->report;
    names serve, older;
    if (!names_make(&serve, r->timing_count))
        return;
    if (names_make(&older, r->timing_count)) {
        for (size_t i = 0; i < r->timing_count; i++) {
            const lab_report_timing *t = &r->timings[i];
            if (t->ours && *t->kernel)
                add_name(t->older || t->rung ? &older : &serve, t->kernel);
        }
        if (serve.count > 0) {
            lab_markup(page->out,
                       "<dt>by</dt><dd><details><summary>%zu kernel%s of attest%s</summary>\n",
                       serve.count, serve.count == 1 ? "" : "s",
                       older.count > 0 ? "; older ones and the ladder apart" : "");
            for (size_t i = 0; i < serve.count; i++)
                lab_markup(page->out, "<code>%s</code><br/>\n", serve.list[i]);
            lab_markup(page->out, "</details></dd>\n");
        }
        free(older.list);
    }
    free(serve.list);
}

static void put_rivals(lab_page *page) {
    const lab_report *r = page->report;
    names rivals;
    if (!names_make(&rivals, r->timing_count))
        return;
    for (size_t i = 0; i < r->timing_count; i++)
        if (!r->timings[i].ours)
            add_name(&rivals, lab_report_name(&r->timings[i]));
    put_names(page, "against", &rivals);
    free(rivals.list);
}

/* The day of a date, "2026-11-17" of "2026-11-17T03:13:00Z". */
static void put_dates(lab_page *page) {
    const lab_report *r = page->report;
    const char *first = NULL, *last = NULL, *version = "";
    for (size_t i = 0; i < r->file_count; i++) {
        const lab_report_file *file = &r->files[i];
        if (file->kind == LAB_REPORT_OTHER || !*file->date)
            continue;
        first = first ? first : file->date;
        last = file->date;
        version = file->version;
    }
    if (!first)
        return;
    char from[11], to[11];
    snprintf(from, sizeof from, "%.10s", first);
    snprintf(to, sizeof to, "%.10s", last);
    lab_markup(page->out, "<dt>when</dt><dd>%s", from);
    if (strcmp(from, to) != 0)
        lab_markup(page->out, " to %s", to);
    lab_markup(page->out, ", the last with attest %s</dd>\n",
               *version ? version : "of unknown version");
}

static void put_trust(lab_page *page) {
    const lab_report *r = page->report;
    const lab_report_audit audit = lab_report_audited(r);
    const size_t statements = lab_report_statements(r);
    if (statements == 0 && audit.saboteurs == 0)
        return;
    lab_markup(page->out, "<dt>trust</dt><dd>");
    if (statements > 0)
        lab_markup(page->out, "<a href=\"#attestations\">%zu attestation%s</a>", statements,
                   statements == 1 ? "" : "s");
    if (audit.saboteurs > 0)
        lab_markup(page->out,
                   "%s<a href=\"#measurement\">%zu of %zu cheating kernels caught</a>",
                   statements > 0 ? " · " : "", audit.caught, audit.saboteurs);
    lab_markup(page->out, "</dd>\n");
}

/* ---------------------------------------------------------------------------- cards */

static const char *class_of(const lab_report_card *card) {
    if (card->unjudged == card->problems)
        return "unjudged";
    if (card->counts[LAB_SLOWER] == 0 && card->counts[LAB_FASTER] > 0)
        return "faster";
    return 2 * card->counts[LAB_SLOWER] > card->problems ? "slower" : "mixed";
}

static void put_counts(lab_page *page, const lab_report_card *card) {
    bool any = false;
    lab_markup(page->out, "<p>");
    for (int i = 0; i < LAB_VERDICTS; i++) {
        if (card->counts[i] == 0)
            continue;
        const char *word = lab_report_verdict_word((lab_verdict_kind)i);
        lab_markup(page->out, "%s<span class=\"%s\">%zu %s</span>", any ? ", " : "", word,
                   card->counts[i], word);
        any = true;
    }
    if (card->unjudged > 0)
        lab_markup(page->out, "%s%zu of %zu faster, by medians alone", any ? ", " : "",
                   card->ahead, card->unjudged);
    lab_markup(page->out, "</p>\n");
}

/* Its group, or its operation. */
static const char *title_of(const lab_report_card *card) {
    return *card->group ? card->group : operation_of(card->problem);
}

static bool share_title(const lab_report_card *a, const lab_report_card *b) {
    return a->past == b->past && strcmp(title_of(a), title_of(b)) == 0 &&
           strcmp(a->variant, b->variant) == 0 && strcmp(a->device, b->device) == 0;
}

/* The title of card `at`; if others of its device have the same, with the name of its file. */
static void put_title(lab_page *page, const lab_report_card *cards, size_t count, size_t at) {
    const lab_report_card *card = &cards[at];
    const char *title = title_of(card), *file = page->report->files[card->file].name;
    const char *slash = strrchr(file, '/');
    char stem[128];
    size_t alike = 0;
    for (size_t i = 0; i < count; i++)
        alike += share_title(card, &cards[i]);
    snprintf(stem, sizeof stem, "%s", slash ? slash + 1 : file);
    stem[strcspn(stem, ".")] = '\0';
    lab_markup(page->out, "<h3>");
    if (alike < 2)
        lab_markup(page->out, "%s", title);
    else if (strncmp(stem, title, strlen(title)) == 0)
        lab_markup(page->out, "%s", stem);
    else
        lab_markup(page->out, "%s: %s", title, stem);
    lab_markup(page->out, "%s%s</h3>\n", *card->variant ? ", " : "", card->variant);
}

static void put_card(lab_page *page, const lab_report_card *cards, size_t count, size_t at) {
    const lab_report *r = page->report;
    const lab_report_card *card = &cards[at];
    char label[512];
    lab_markup(page->out, "<li class=\"%s\">\n", card->past ? "itself" : class_of(card));
    put_title(page, cards, count, at);
    lab_markup(page->out, "<p class=\"soft\">%zu problem%s", card->problems,
               card->problems == 1 ? "" : "s");
    lab_markup(page->out, " on %s</p>\n<b>%.2f×</b>\n<p class=\"soft\">the speed of ",
               *card->device ? card->device : "a device that is not recorded", card->mean);
    if (card->rival_count > 1)
        lab_markup(page->out, "the best of ");
    for (size_t i = 0; i < card->rival_count; i++)
        lab_markup(page->out, "%s%s",
                   i == 0                      ? ""
                   : i + 1 < card->rival_count ? ", "
                                               : " and ",
                   card->rivals[i]);
    lab_markup(page->out, "</p>\n");
    lab_page_bar(page, card->counts, card->unjudged);
    put_counts(page, card);
    lab_markup(page->out,
               "<p class=\"soft\">worst %.2f× against %s, <code>%s</code></p>\n</li>\n",
               card->worst->speed, lab_report_name(&r->timings[card->worst->theirs]),
               lab_report_label(label, sizeof label, &r->timings[card->worst->ours]));
}

void lab_page_cards(lab_page *page) {
    lab_report_card *cards;
    const size_t count = lab_report_cards(page->report, &cards);
    if (count > 0) {
        lab_markup(page->out, "<ul class=\"cards\">\n");
        for (size_t i = 0; i < count; i++) {
            if (cards[i].past && (i == 0 || !cards[i - 1].past))
                lab_markup(
                    page->out,
                    "</ul>\n<p class=\"soft\">attest against itself: an earlier version, or "
                    "the same work with other inputs</p>\n<ul class=\"cards\">\n");
            put_card(page, cards, count, i);
        }
        lab_markup(page->out, "</ul>\n");
    }
    free(cards);
}

void lab_page_summary(lab_page *page) {
    lab_markup(page->out, "<dl class=\"facts\">\n");
    put_measured(page);
    put_devices(page);
    put_kernels(page);
    put_rivals(page);
    put_dates(page);
    put_trust(page);
    lab_markup(page->out, "</dl>\n");
}
