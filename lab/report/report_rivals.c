/* report_rivals.c: the name of a subject, and its shape and colour in every plot. */
#include <string.h>

#include "lab/report/plot.h"
#include "lab/report/report_view.h"

/* Slots of plots, in this order; attest is the first. */
static const struct {
    const char *rival, *name;
    bool on_a_gpu; /* only there: on a CPU PyTorch's backends are its own, and flash is not
                    * FlashAttention-2 */
} known[] = {{"attest", "attest", false},
             {"cudnn", "cuDNN", false},
             {"flash", "FlashAttention-2", true},
             {"fa3", "FlashAttention-3", false},
             {"fa3-deterministic", "FlashAttention-3, deterministic", false},
             {"default", "PyTorch", true},
             {"math", "PyTorch, math", true},
             {"efficient", "PyTorch, efficient", true},
             {"flex", "PyTorch, flex", true}};

enum { KNOWN = sizeof known / sizeof known[0] };
_Static_assert(KNOWN + LAB_REPORT_OTHERS == LAB_PLOT_SERIES, "every slot has an owner");

const char *lab_report_name(const lab_report_timing *t) {
    const bool cpu = t->timer && strcmp(t->timer, "cpu") == 0;
    for (size_t i = 0; i < KNOWN; i++)
        if (t->rival && strcmp(t->rival, known[i].rival) == 0 && !(cpu && known[i].on_a_gpu))
            return known[i].name;
    return t->subject;
}

/* "PyTorch 2.11.0 flash", as a backend is named on a CPU, has the slot of the same backend on a
 * GPU; without a word after its version it is the default. */
static bool is_backend(const char *name, const char *rival) {
    if (strncmp(name, "PyTorch ", 8) != 0)
        return false;
    const char *word = strchr(name + 8, ' ');
    return strcmp(word ? word + 1 : "default", rival) == 0;
}

/* KNOWN: not in the table. */
static size_t known_slot(const char *name) {
    size_t i = 0;
    while (i < KNOWN && strcmp(name, known[i].name) != 0 && !is_backend(name, known[i].rival))
        i++;
    return i;
}

size_t lab_report_slot(const lab_report *report, const char *name) {
    const size_t slot = known_slot(name);
    if (slot < KNOWN)
        return slot;
    for (size_t i = 0; i < report->other_count; i++)
        if (strcmp(name, report->others[i]) == 0)
            return KNOWN + i;
    return LAB_PLOT_SERIES - 1;
}

void lab_report_name_rivals(lab_report *report) {
    for (size_t i = 0; i < report->timing_count; i++) {
        const char *name = lab_report_name(&report->timings[i]);
        bool has = known_slot(name) < KNOWN;
        for (size_t k = 0; k < report->other_count && !has; k++)
            has = strcmp(name, report->others[k]) == 0;
        if (!has && report->other_count < LAB_REPORT_OTHERS)
            report->others[report->other_count++] = name;
    }
}
