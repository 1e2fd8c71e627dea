/* report_page_cards.c: how attest compares, at a glance: a card for each group of problems. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

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

static bool share_title(const lab_report_card *a, const lab_report_card *b) {
    char left[64], right[64];
    return a->past == b->past &&
           strcmp(lab_report_title(left, sizeof left, a->group, a->problem),
                  lab_report_title(right, sizeof right, b->group, b->problem)) == 0 &&
           strcmp(a->variant, b->variant) == 0 && strcmp(a->device, b->device) == 0;
}

/* "contiguous keys" of "attest, contiguous keys". */
static const char *other_form(const char *rival) {
    return strncmp(rival, "attest, ", 8) == 0 ? rival + 8 : rival;
}

/* The title of card `at`; if others of its device have the same, with the name of its file. */
static void put_title(lab_page *page, const lab_report_card *cards, size_t count, size_t at) {
    const lab_report_card *card = &cards[at];
    char stem[128], title[64];
    size_t alike = 0;
    for (size_t i = 0; i < count; i++)
        alike += share_title(card, &cards[i]);
    lab_markup(page->out, "<h3>%s",
               lab_report_title(title, sizeof title, card->group, card->problem));
    if (alike > 1)
        lab_markup(page->out, ": %s",
                   lab_page_stem(stem, sizeof stem, &page->report->files[card->file]));
    if (*card->variant)
        lab_markup(page->out, ", %s", card->variant);
    if (card->past)
        lab_markup(page->out, " against %s", other_form(card->rivals[0]));
    lab_markup(page->out, "</h3>\n");
}

static void put_card(lab_page *page, const lab_report_card *cards, size_t count, size_t at) {
    const lab_report *r = page->report;
    const lab_report_card *card = &cards[at];
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
    lab_markup(page->out, "<p class=\"soft\">worst %.2f× against %s, ", card->worst->speed,
               lab_report_name(&r->timings[card->worst->theirs]));
    lab_page_problem(page, &r->timings[card->worst->ours]);
    lab_markup(page->out, "</p>\n</li>\n");
}

/* Cards of fewer problems are folded below the others. */
enum { PROBLEMS_LEAST = 4 };

/* The cards of one kind, the small ones or the others; returns their number. `show`: false only
 * counts them. */
static size_t put_cards(lab_page *page, const lab_report_card *cards, size_t count, bool past,
                        bool small, bool show) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (cards[i].past != past || (cards[i].problems < PROBLEMS_LEAST) != small)
            continue;
        if (show && found == 0)
            lab_markup(page->out, "<ul class=\"cards\">\n");
        if (show)
            put_card(page, cards, count, i);
        found++;
    }
    if (show && found > 0)
        lab_markup(page->out, "</ul>\n");
    return found;
}

static void put_kind(lab_page *page, const lab_report_card *cards, size_t count, bool past) {
    const size_t large = put_cards(page, cards, count, past, false, false),
                 small = put_cards(page, cards, count, past, true, false);
    if (past && large + small > 0)
        lab_markup(page->out, "<p class=\"soft\">attest against itself: an earlier version, or "
                              "the same work with other inputs</p>\n");
    put_cards(page, cards, count, past, false, true);
    if (large > 0 && small > 0)
        lab_markup(page->out,
                   "<details>\n<summary>%zu more, of fewer than %d problems each</summary>\n",
                   small, PROBLEMS_LEAST);
    put_cards(page, cards, count, past, true, true);
    if (large > 0 && small > 0)
        lab_markup(page->out, "</details>\n");
}

/* What the words for a pace mean, if a card has one. */
static void put_paces(lab_page *page, const lab_report_card *cards, size_t count) {
    static const char *const paces[][2] = {
        {"sustained", "replays back to back, at the clock that the power limit leaves"},
        {"burst", "one replay after a rest"}};
    for (size_t p = 0; p < sizeof paces / sizeof paces[0]; p++)
        for (size_t i = 0; i < count; i++)
            if (strstr(cards[i].variant, paces[p][0])) {
                lab_markup(page->out, "<p class=\"soft\">%s: %s</p>\n", paces[p][0],
                           paces[p][1]);
                break;
            }
}

void lab_page_cards(lab_page *page) {
    lab_report_card *cards;
    const size_t count = lab_report_cards(page->report, &cards);
    put_kind(page, cards, count, false);
    put_paces(page, cards, count);
    put_kind(page, cards, count, true);
    free(cards);
}
