/* report_rivals.c: the name of a subject, and its shape and colour in every plot. */
#include <string.h>

#include "lab/report/plot.h"
#include "lab/report/report_view.h"

/* Slots of plots, in this order. A subject is known by its short name or, if it is a plug-in, by
 * the beginning of its own, which is its name where none is given. */
static const struct {
    const char *rival, *subject, *name;
    bool on_a_gpu; /* only there: on a CPU PyTorch's backends are its own, and flash is not
                    * FlashAttention-2 */
} known[] = {{"attest", NULL, "attest", false},
             {"cudnn", NULL, "cuDNN", false},
             {"flash", NULL, "FlashAttention-2", true},
             {"fa3", NULL, "FlashAttention-3", false},
             {"fa3-deterministic", NULL, "FlashAttention-3, deterministic", false},
             {"default", NULL, "PyTorch", true},
             {"math", NULL, "PyTorch, math", true},
             {"efficient", NULL, "PyTorch, efficient", true},
             {"flex", NULL, "PyTorch, flex", true},
             {"flash-deterministic", NULL, "FlashAttention-2, deterministic", true},
             {"grouped_mm", NULL, "PyTorch, grouped_mm", false},
             {"loop", NULL, "PyTorch, a loop over experts", false},
             {"jax", NULL, "JAX", false},
             {NULL, "cublas ", "cuBLAS", false},
             {NULL, "attest-library ", NULL, false},
             {"contiguous", NULL, "attest, contiguous keys", false},
             {"equal", NULL, "attest, equal lengths", false},
             {"plain", NULL, "attest, plain scores", false},
             {"whole", NULL, "attest, one call", false}};

enum { KNOWN = sizeof known / sizeof known[0] };
_Static_assert(KNOWN + LAB_REPORT_OTHERS == LAB_PLOT_SERIES, "every slot has an owner");

static bool is_known(const lab_report_timing *t, size_t i) {
    if (!known[i].rival)
        return strncmp(t->subject, known[i].subject, strlen(known[i].subject)) == 0;
    return t->rival && strcmp(t->rival, known[i].rival) == 0;
}

const char *lab_report_name(const lab_report_timing *t) {
    const bool cpu = t->timer && strcmp(t->timer, "cpu") == 0;
    for (size_t i = 0; i < KNOWN; i++)
        if (is_known(t, i) && !(cpu && known[i].on_a_gpu))
            return known[i].name ? known[i].name : t->subject;
    return t->subject;
}

bool lab_report_is_itself(const lab_report_timing *rival) {
    return strncmp(rival->subject, "attest", 6) == 0 ||
           strcmp(rival->subject, "the baseline") == 0;
}

/* "PyTorch 2.11.0 flash", as a backend is named on a CPU, has the slot of the same backend on a
 * GPU; without a word after its version it is the default. */
static bool is_backend(const char *name, const char *rival) {
    if (strncmp(name, "PyTorch ", 8) != 0)
        return false;
    const char *word = strchr(name + 8, ' ');
    return strcmp(word ? word + 1 : "default", rival) == 0;
}

static bool has_slot(const char *name, size_t i) {
    if (known[i].rival && is_backend(name, known[i].rival))
        return true;
    return known[i].name ? strcmp(name, known[i].name) == 0
                         : strncmp(name, known[i].subject, strlen(known[i].subject)) == 0;
}

/* KNOWN: not in the table. */
static size_t known_slot(const char *name) {
    size_t i = 0;
    while (i < KNOWN && !has_slot(name, i))
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

/* What a short name stands for, with its version, among the facts of the file. */
static void explain(lab_report *report, const lab_report_timing *t) {
    lab_report_file *file = &report->files[t->file];
    const char *name = lab_report_name(t);
    if (strcmp(name, t->subject) == 0 || file->kind == LAB_REPORT_MEDIANS)
        return;
    for (size_t i = 0; i < file->fact_count; i++)
        if (strcmp(file->facts[i].name, name) == 0)
            return;
    lab_report_fact_add(file, name, t->subject);
}

void lab_report_name_rivals(lab_report *report) {
    for (size_t i = 0; i < report->timing_count; i++) {
        explain(report, &report->timings[i]);
        const char *name = lab_report_name(&report->timings[i]);
        bool has = known_slot(name) < KNOWN;
        for (size_t k = 0; k < report->other_count && !has; k++)
            has = strcmp(name, report->others[k]) == 0;
        if (!has && report->other_count < LAB_REPORT_OTHERS)
            report->others[report->other_count++] = name;
    }
}
