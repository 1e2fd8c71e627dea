/* report_summary.c: counts, means and losses, with which every view of a report begins. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_view.h"

const char *lab_report_verdict_word(lab_verdict_kind kind) {
    static const char *const words[LAB_VERDICTS] = {
        [LAB_FASTER] = "faster",
        [LAB_SLOWER] = "slower",
        [LAB_SAME] = "same",
        [LAB_AMBIGUOUS] = "ambiguous",
    };
    return words[kind];
}

const char *lab_report_time(char *buf, size_t n, double ns, const char *micro) {
    const double us = ns / 1e3, value = us < 999.5 ? us : us < 999.5e3 ? us / 1e3 : us / 1e6;
    snprintf(buf, n, "%.*f %ss",
             value < 9.995   ? 2
             : value < 99.95 ? 1
                             : 0,
             value,
             us < 999.5     ? micro
             : us < 999.5e3 ? "m"
                            : "");
    return buf;
}

/* ------------------------------------------------------------------------- tallies */

static lab_report_tally *tally_of(lab_report_tally *tallies, size_t *count,
                                  const lab_report *report, const lab_report_pair *pair) {
    const lab_report_timing *theirs = &report->timings[pair->theirs];
    const char *device = report->files[theirs->file].device, *rival = lab_report_name(theirs);
    const bool older = !lab_report_serves(report, pair);
    for (size_t i = 0; i < *count; i++)
        if (tallies[i].older == older && strcmp(tallies[i].device, device) == 0 &&
            strcmp(tallies[i].rival, rival) == 0 &&
            strcmp(tallies[i].group, theirs->group) == 0)
            return &tallies[i];
    lab_report_tally *tally = &tallies[(*count)++];
    *tally = (lab_report_tally){
        .device = device, .rival = rival, .group = theirs->group, .older = older};
    return tally;
}

static void count_pairs(lab_report_tally *tallies, size_t *count, const lab_report *report,
                        const lab_report_pair *pairs, size_t pair_count, bool older) {
    for (size_t i = 0; i < pair_count; i++) {
        const lab_report_pair *pair = &pairs[i];
        if (lab_report_serves(report, pair) == older)
            continue;
        lab_report_tally *tally = tally_of(tallies, count, report, pair);
        if (pair->unjudged)
            tally->unjudged++;
        else
            tally->counts[pair->verdict.kind]++;
        tally->total++;
        tally->mean += log(pair->speed);
        if (!tally->worst || pair->speed < tally->worst->speed)
            tally->worst = pair;
    }
}

size_t lab_report_tallies(const lab_report *report, lab_report_tally **out) {
    const size_t most = report->pair_count + report->median_count;
    size_t count = 0;
    *out = calloc(most ? most : 1, sizeof **out);
    if (!*out)
        return 0;
    for (int older = 0; older <= 1; older++) {
        count_pairs(*out, &count, report, report->medians, report->median_count, older == 1);
        count_pairs(*out, &count, report, report->pairs, report->pair_count, older == 1);
    }
    for (size_t i = 0; i < count; i++)
        (*out)[i].mean = exp((*out)[i].mean / (double)(*out)[i].total);
    return count;
}

/* -------------------------------------------------------------------------- losses */

static int slowest_first(const void *left, const void *right) {
    const lab_report_pair *a = *(const lab_report_pair *const *)left,
                          *b = *(const lab_report_pair *const *)right;
    if (a->verdict.kind != b->verdict.kind)
        return a->verdict.kind == LAB_SLOWER ? -1 : 1;
    return a->speed != b->speed ? (a->speed > b->speed) - (a->speed < b->speed)
                                : (a->ours > b->ours) - (a->ours < b->ours);
}

size_t lab_report_losses(const lab_report *report, bool older, bool itself,
                         const lab_report_pair ***out) {
    size_t count = 0;
    *out = calloc(report->pair_count ? report->pair_count : 1, sizeof(const void *));
    if (!*out)
        return 0;
    for (size_t i = 0; i < report->pair_count; i++) {
        const lab_verdict_kind kind = report->pairs[i].verdict.kind;
        if ((kind == LAB_SLOWER || kind == LAB_AMBIGUOUS) &&
            lab_report_serves(report, &report->pairs[i]) != older &&
            lab_report_is_itself(&report->timings[report->pairs[i].theirs]) == itself)
            (*out)[count++] = &report->pairs[i];
    }
    qsort((void *)*out, count, sizeof(const void *), slowest_first);
    return count;
}

/* --------------------------------------------------------------------------- trust */

size_t lab_report_statements(const lab_report *report) {
    size_t count = 0;
    for (size_t i = 0; i < report->file_count; i++)
        count += report->files[i].kind == LAB_REPORT_STATEMENT;
    return count;
}

bool lab_report_as_it_should(const lab_report_saboteur *s) {
    return strcmp(s->outcome, s->honest ? "passed" : "caught") == 0;
}

lab_report_audit lab_report_audited(const lab_report *report) {
    lab_report_audit audit = {0};
    for (size_t i = 0; i < report->saboteur_count; i++) {
        const lab_report_saboteur *s = &report->saboteurs[i];
        const bool right = lab_report_as_it_should(s);
        audit.honest += s->honest;
        audit.saboteurs += !s->honest;
        audit.passed += s->honest && right;
        audit.caught += !s->honest && right;
    }
    return audit;
}

const lab_report_variant *lab_report_all_on(const lab_report_ablation *ablation) {
    for (size_t i = 0; i < ablation->variant_count; i++)
        if (strcmp(ablation->variants[i].kind, "all_on") == 0 &&
            ablation->variants[i].samples.count > 0)
            return &ablation->variants[i];
    return NULL;
}
