/* spans.c: differences between the processes of one run. */
#include "lab/statistics/spans.h"

#include <math.h>
#include <stdlib.h>

#include "lab/statistics/verdict.h"

static bool add(lab_spans *s, double span) {
    if (s->count == s->capacity) {
        const size_t capacity = s->capacity ? 2 * s->capacity : 64;
        double *grown = realloc(s->all, capacity * sizeof *grown);
        if (!grown)
            return false;
        s->all = grown;
        s->capacity = capacity;
    }
    s->all[s->count++] = span;
    return true;
}

static bool same_process(const lab_samples *s, size_t i, size_t j) {
    return !s->process || s->process[i] == s->process[j];
}

/* Writes the logarithm of the median of each process into `medians` and returns their number.
 * `scratch` has room for all samples. */
static size_t process_medians(const lab_samples *s, double *medians, double *scratch) {
    size_t processes = 0;
    for (size_t first = 0, end; first < s->count; first = end) {
        for (end = first; end < s->count && same_process(s, end, first); end++)
            scratch[end - first] = s->values[end];
        qsort(scratch, end - first, sizeof *scratch, lab_ascending);
        medians[processes++] = log(lab_quantile(scratch, end - first, 0.5));
    }
    return processes;
}

bool lab_spans_add(lab_spans *s, const lab_samples *samples, lab_message *why) {
    double *medians = malloc((2 * samples->count + 1) * sizeof *medians);
    bool ok = medians != NULL;
    const size_t processes =
        ok ? process_medians(samples, medians, medians + samples->count) : 0;
    for (size_t i = 0; ok && i < processes; i++)
        for (size_t j = 0; ok && j < i; j++)
            ok = add(s, fabs(medians[i] - medians[j]));
    free(medians);
    if (ok && (s->fewest == 0 || processes < s->fewest))
        s->fewest = processes;
    return ok || lab_fail(why, "no memory to compare processes");
}

double lab_spans_minimum_effect(lab_spans *s) {
    if (s->count == 0)
        return LAB_MINIMUM_EFFECT_ALONE;
    qsort(s->all, s->count, sizeof *s->all, lab_ascending);
    const double span = expm1(lab_quantile(s->all, s->count, 0.95)) / sqrt((double)s->fewest);
    return fmin(fmax(span, LAB_MINIMUM_EFFECT), 0.99);
}

void lab_spans_free(lab_spans *s) {
    free(s->all);
    *s = (lab_spans){.all = NULL};
}
