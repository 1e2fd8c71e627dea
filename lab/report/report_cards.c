/* report_cards.c: attest compared with the best rival of each problem: what a reader decides
 * by. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_view.h"

bool lab_report_serves(const lab_report *report, const lab_report_pair *pair) {
    return !report->timings[pair->ours].older;
}

static bool past_of(const lab_report *report, const lab_report_pair *pair) {
    return lab_report_is_itself(&report->timings[pair->theirs]);
}

/* Whether this is the fastest of the rivals of one timing of attest; the first if equal. */
static bool is_best(const lab_report *report, const lab_report_pair *pairs, size_t count,
                    size_t at) {
    for (size_t i = 0; i < count; i++)
        if (pairs[i].ours == pairs[at].ours &&
            past_of(report, &pairs[i]) == past_of(report, &pairs[at]) &&
            (pairs[i].speed < pairs[at].speed || (i < at && pairs[i].speed == pairs[at].speed)))
            return false;
    return true;
}

static lab_report_card *card_of(lab_report_card *cards, size_t *count, const lab_report *report,
                                const lab_report_pair *pair) {
    const lab_report_timing *ours = &report->timings[pair->ours];
    const bool past = past_of(report, pair);
    const lab_report_file *file = &report->files[ours->file];
    for (size_t i = 0; i < *count; i++)
        if (cards[i].file == ours->file && cards[i].past == past &&
            strcmp(cards[i].group, ours->group) == 0 &&
            strcmp(cards[i].variant, ours->variant) == 0)
            return &cards[i];
    lab_report_card *card = &cards[(*count)++];
    *card = (lab_report_card){.file = ours->file,
                              .past = past,
                              .device = file->device,
                              .group = ours->group,
                              .variant = ours->variant,
                              .problem = ours->problem};
    return card;
}

static void add_rival(lab_report_card *card, const char *name) {
    for (size_t i = 0; i < card->rival_count; i++)
        if (strcmp(card->rivals[i], name) == 0)
            return;
    if (card->rival_count < LAB_CARD_RIVALS)
        card->rivals[card->rival_count++] = name;
}

static void add_pairs(lab_report_card *cards, size_t *count, const lab_report *report,
                      const lab_report_pair *pairs, size_t pair_count) {
    for (size_t i = 0; i < pair_count; i++) {
        const lab_report_pair *pair = &pairs[i];
        if (!lab_report_serves(report, pair))
            continue;
        lab_report_card *card = card_of(cards, count, report, pair);
        add_rival(card, lab_report_name(&report->timings[pair->theirs]));
        if (!is_best(report, pairs, pair_count, i))
            continue;
        card->problems++;
        card->mean += log(pair->speed);
        if (pair->unjudged)
            card->unjudged++;
        else
            card->counts[pair->verdict.kind]++;
        card->ahead += pair->speed > 1.0;
        if (!card->worst || pair->speed < card->worst->speed)
            card->worst = pair;
    }
}

/* What most readers ask first, then the rest. */
static int rank_of(const lab_report_card *card) {
    static const char *const groups[] = {"forward", "backward"};
    enum { GROUPS = sizeof groups / sizeof groups[0] };
    for (int i = 0; i < GROUPS; i++)
        if (strcmp(card->group, groups[i]) == 0 && !*card->variant)
            return i;
    return GROUPS;
}

/* Forward and backward come first, then the cards with the most problems; equal ones keep the
 * order of the files. */
static int in_order(const void *left, const void *right) {
    const lab_report_card *a = left, *b = right;
    if (a->past != b->past)
        return a->past ? 1 : -1;
    if (rank_of(a) != rank_of(b))
        return rank_of(a) - rank_of(b);
    if (a->problems != b->problems)
        return a->problems > b->problems ? -1 : 1;
    return a->worst->ours < b->worst->ours ? -1 : a->worst->ours > b->worst->ours;
}

size_t lab_report_cards(const lab_report *report, lab_report_card **out) {
    const size_t most = report->pair_count + report->median_count;
    size_t count = 0;
    *out = calloc(most ? most : 1, sizeof **out);
    if (!*out)
        return 0;
    add_pairs(*out, &count, report, report->medians, report->median_count);
    add_pairs(*out, &count, report, report->pairs, report->pair_count);
    for (size_t i = 0; i < count; i++)
        (*out)[i].mean = exp((*out)[i].mean / (double)(*out)[i].problems);
    qsort(*out, count, sizeof **out, in_order);
    return count;
}
