/* report_groups.c: groups of problems: their titles, and the plots of a page in the order of its
 * cards. */
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_view.h"

const char *lab_report_operation(const char *problem) {
    static const struct {
        const char *prefix, *name;
    } operations[] = {
        {"backward:", "gradients"}, {"merge:", "merging"}, {"moe:", "mixtures of experts"}};
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        if (strncmp(problem, operations[i].prefix, strlen(operations[i].prefix)) == 0)
            return operations[i].name;
    return "attention";
}

const char *lab_report_title(char *buf, size_t n, const char *group, const char *problem) {
    static const struct {
        const char *group, *title;
    } titles[] = {{"backward", "gradients"},
                  {"backward_dims", "gradients, head sizes"},
                  {"backward_fp16", "gradients, fp16"},
                  {"backward_gqa", "gradients, grouped heads"},
                  {"backward_seed", "gradients, small problems"},
                  {"chunk", "chunks of new rows"},
                  {"decode", "decoding"},
                  {"decode_sweep", "decoding, many sizes"},
                  {"dims", "head sizes"},
                  {"experts", "mixtures of experts"},
                  {"features", "biases, masks and softcap"},
                  {"gqa", "grouped heads"},
                  {"lengths", "unequal lengths"},
                  {"pages", "pages of keys"},
                  {"parallel_4", "a ring of 4 ranks"},
                  {"parallel_8", "a ring of 8 ranks"},
                  {"seed", "small problems"},
                  {"windows", "sliding windows"}};
    const char *title = *group ? group : lab_report_operation(problem);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
        if (strcmp(titles[i].group, group) == 0)
            title = titles[i].title;
    snprintf(buf, n, "%s", title);
    for (char *at = buf; *at; at++)
        *at = *at == '_' ? ' ' : *at;
    return buf;
}

bool lab_report_in_group(const lab_report *report, const lab_report_timing *timing,
                         const lab_report_group *group) {
    const lab_report_file *file = &report->files[timing->file];
    return file->kind == group->kind && strcmp(file->device, group->device) == 0 &&
           strcmp(timing->group, group->group) == 0;
}

static size_t collect(const lab_report *report, lab_report_group *groups) {
    size_t count = 0;
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *t = &report->timings[i];
        const lab_report_file *file = &report->files[t->file];
        bool known = false;
        for (size_t k = 0; k < count && !known; k++)
            known = lab_report_in_group(report, t, &groups[k]);
        if (known)
            continue;
        groups[count] = (lab_report_group){.device = file->device,
                                           .group = t->group,
                                           .problem = t->problem,
                                           .kind = file->kind,
                                           .order = count};
        count++;
    }
    return count;
}

static int in_order(const void *left, const void *right) {
    const lab_report_group *a = left, *b = right;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Groups with a card in the order of the cards, then the others. */
static void sort(const lab_report *report, lab_report_group *groups, size_t count) {
    lab_report_card *cards;
    const size_t card_count = lab_report_cards(report, &cards);
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (
            at < card_count &&
            !lab_report_in_group(report, &report->timings[cards[at].worst->ours], &groups[i]))
            at++;
        groups[i].order += at * count;
    }
    qsort(groups, count, sizeof *groups, in_order);
    free(cards);
}

size_t lab_report_groups(const lab_report *report, lab_report_group **out) {
    *out = calloc(report->timing_count ? report->timing_count : 1, sizeof **out);
    if (!*out)
        return 0;
    const size_t count = collect(report, *out);
    sort(report, *out, count);
    return count;
}
