/* report_rates.c: which problems make a curve, and the curves. */
#include "lab/report/report_rates.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS_LEAST = 3 };

/* ------------------------------------------------------------------------ the length */

/* "b32h16s512d128,bf16" -> "h16d128,bf16" and 512; "b64h32hkv8s1sk8192d128" ->
 * "b64h32hkv8s1d128" and 8192. For experts the length is the number of tokens. Returns 0 if the
 * line has none. */
static double split_length(const char *problem, char key[LAB_FAMILY_KEY]) {
    const char *colon = strchr(problem, ':'), *comma = strchr(problem, ',');
    const char *at = colon && (!comma || colon < comma) ? colon + 1 : problem;
    const bool cached = strstr(at, "sk") && (!comma || strstr(at, "sk") < comma);
    size_t n = (size_t)(at - problem);
    double length = 0.0;
    if (strlen(problem) >= LAB_FAMILY_KEY)
        return 0.0;
    memcpy(key, problem, n);
    while (islower((unsigned char)*at)) {
        const size_t letters = strspn(at, "abcdefghijklmnopqrstuvwxyz");
        const char *const end = at + letters + strspn(at + letters, "0123456789");
        const double value = (double)strtoull(at + letters, NULL, 10);
        const bool is = letters == 1 ? *at == 't' || (*at == 's' && !cached)
                                     : letters == 2 && strncmp(at, "sk", 2) == 0;
        if (is)
            length = value;
        else if (!(letters == 1 && *at == 'b' && !cached)) {
            memcpy(key + n, at, (size_t)(end - at));
            n += (size_t)(end - at);
        }
        at = end;
    }
    snprintf(key + n, LAB_FAMILY_KEY - n, "%s", at);
    return length;
}

static bool is_drawn(const lab_report *r, const lab_report_timing *t) {
    return !t->older && !*t->failure && t->ns.median > 0.0 && t->flops > 0.0 &&
           t->bytes > 0.0 &&
           (t->samples.count > 0 || r->files[t->file].kind == LAB_REPORT_MEDIANS) && !t->rung;
}

static bool same_kind(const lab_family *f, const lab_report_timing *t, double *length) {
    char key[LAB_FAMILY_KEY];
    if (t->file != f->file || strcmp(t->group, f->group) != 0 ||
        strcmp(t->variant, f->variant) != 0)
        return false;
    *length = split_length(t->problem, key);
    return *length > 0.0 && strcmp(key, f->key) == 0;
}

/* -------------------------------------------------------------------------- families */

void lab_family_free(lab_family *f) {
    free(f->series);
    free(f->spots);
    free(f->notes);
    free(f->timings);
}

static bool family_make(lab_family *f, size_t count) {
    const size_t most = count ? count : 1;
    f->series = calloc(most, sizeof *f->series);
    f->spots = calloc(most, sizeof *f->spots);
    f->notes = calloc(most, sizeof *f->notes);
    f->timings = calloc(most, sizeof(const void *));
    if (f->series && f->spots && f->notes && f->timings)
        return true;
    lab_family_free(f);
    return false;
}

static size_t series_of(lab_family *f, const lab_report *r, const char *name) {
    size_t i = 0;
    while (i < f->plot.series_count && strcmp(f->series[i].name, name) != 0)
        i++;
    if (i == f->plot.series_count)
        f->series[f->plot.series_count++] =
            (lab_plot_key){.name = name, .slot = lab_report_slot(r, name)};
    return i;
}

/* Spots are kept in the order of their lengths, in which the line connects them. If a length
 * has several batches, the one with the most work is used. */
static void add_spot(lab_family *f, const lab_report *r, const lab_report_timing *t, double x) {
    const size_t series = series_of(f, r, lab_report_name(t));
    for (size_t i = 0; i < f->plot.spot_count; i++)
        if (f->spots[i].x == x && f->spots[i].series == series) {
            if (t->flops > f->timings[i]->flops)
                f->timings[i] = t;
            return;
        }
    size_t at = f->plot.spot_count++;
    for (; at > 0 && f->spots[at - 1].x > x; at--) {
        f->spots[at] = f->spots[at - 1];
        f->timings[at] = f->timings[at - 1];
    }
    f->timings[at] = t;
    f->spots[at] = (lab_plot_spot){.x = x, .series = series};
}

static size_t count_kin(const lab_family *f, const lab_report *r) {
    size_t count = 0;
    double x;
    for (size_t i = 0; i < r->timing_count; i++)
        count += is_drawn(r, &r->timings[i]) && same_kind(f, &r->timings[i], &x);
    return count;
}

static bool gather(lab_family *f, const lab_report *r) {
    size_t lengths = 0;
    double last = 0.0, x;
    for (int ours = 1; ours >= 0; ours--) /* attest is the first series */
        for (size_t i = 0; i < r->timing_count; i++) {
            const lab_report_timing *t = &r->timings[i];
            if (t->ours == (ours == 1) && is_drawn(r, t) && same_kind(f, t, &x))
                add_spot(f, r, t, x);
        }
    for (size_t i = 0; i < f->plot.spot_count; i++)
        if (f->timings[i]->ours && f->spots[i].x > last) {
            last = f->spots[i].x;
            lengths++;
        }
    return lengths >= LENGTHS_LEAST;
}

/* Whether memory binds at most lengths: according to the limits or, if none are known, to the
 * operations per byte. */
static bool is_of_memory(const lab_family *f, const lab_page_roof *roofs, size_t count) {
    double flat = 0.0, memory = 0.0;
    size_t of_memory = 0;
    for (size_t i = 0; i < count; i++) {
        double *most = roofs[i].of_memory ? &memory : &flat;
        *most = fmax(*most, roofs[i].rate);
    }
    const double ridge = flat > 0.0 && memory > 0.0 ? flat / memory : 64.0;
    for (size_t i = 0; i < f->plot.spot_count; i++)
        of_memory += f->timings[i]->flops / f->timings[i]->bytes < ridge;
    return 2 * of_memory > f->plot.spot_count;
}

static void add_ceilings(lab_family *f, const lab_page_roof *roofs, size_t count) {
    for (size_t i = 0; i < count && f->plot.ceiling_count < LAB_FAMILY_CEILINGS; i++) {
        const lab_page_roof *roof = &roofs[i];
        if (roof->of_memory != f->memory || strstr(roof->what, "mma.sync"))
            continue;
        char *name = f->ceiling_names[f->plot.ceiling_count];
        snprintf(name, sizeof f->ceiling_names[0], "%s: %.3g", roof->what, roof->rate / 1e12);
        f->ceilings[f->plot.ceiling_count++] = (lab_plot_ceiling){
            .name = name, .value = roof->rate / 1e12, .dashed = roof->measured};
    }
}

/* "forward: 16 heads of 128, bf16, causal" of "h16d128,bf16,causal"; other shapes stay as they
 * are. The name is without the operation. */
static void name_family(lab_family *f) {
    const char *operation = lab_report_operation(f->key), *colon = strchr(f->key, ':');
    const char *sizes = strcmp(operation, "attention") != 0 && colon ? colon + 1 : f->key;
    char words[LAB_FAMILY_KEY] = "";
    unsigned heads, dims;
    int length = 0;
    if (sscanf(sizes, "h%ud%u%n", &heads, &dims, &length) == 2 && sizes[length] == ',')
        snprintf(words, sizeof words, "%u head%s of %u", heads, heads == 1 ? "" : "s", dims);
    else
        length = 0;
    snprintf(f->name, sizeof f->name, "%s%s%s", sizes, *f->variant ? ", " : "", f->variant);
    size_t used =
        (size_t)snprintf(f->title, sizeof f->title, "%s: %s",
                         strcmp(operation, "attention") == 0 ? "forward" : operation, words);
    for (const char *at = f->name + length; *at && used + 3 < sizeof f->title; at++) {
        f->title[used++] = *at;
        if (*at == ',' && at[1] != ' ')
            f->title[used++] = ' ';
    }
    f->title[used] = '\0';
}

static const char *x_axis_of(const char *problem) {
    if (strncmp(problem, "moe:", 4) == 0)
        return "tokens";
    const char *keys = strstr(problem, "sk");
    return keys && keys < problem + strcspn(problem, ",") ? "keys" : "sequence length";
}

void lab_family_finish(lab_family *f, const lab_report *r) {
    lab_page_roof roofs[LAB_PAGE_ROOFS];
    const size_t count = lab_page_roofs(r, f->timings[0], roofs);
    f->memory = is_of_memory(f, roofs, count);
    if (!strstr(f->key, "f32")) /* the peaks are for 16-bit inputs */
        add_ceilings(f, roofs, count);
    for (size_t i = 0; i < f->plot.spot_count; i++) {
        const lab_report_timing *t = f->timings[i];
        char time[32];
        f->spots[i].y = (f->memory ? t->bytes : t->flops) / t->ns.median / 1e3;
        snprintf(f->notes[i], LAB_FAMILY_NOTE, "%.100s, %.60s%s%.60s: %.4g T%s/s, %s",
                 t->problem, lab_report_name(t), t->ours && *t->kernel ? ", " : "",
                 t->ours ? t->kernel : "", f->spots[i].y, f->memory ? "B" : "FLOP",
                 lab_report_time(time, sizeof time, t->ns.median, "µ"));
        f->spots[i].note = f->notes[i];
    }
    name_family(f);
    f->plot.name = f->name;
    f->plot.title = f->title;
    f->plot.summary =
        "Rates over the length, a line for each subject. The table below has every "
        "number.";
    f->plot.x_axis = x_axis_of(f->timings[0]->problem);
    f->plot.y_axis = f->memory ? "TB/s" : "TFLOP/s";
    f->plot.series = f->series;
    f->plot.spots = f->spots;
    f->plot.ceilings = f->ceilings;
}

static bool is_known(const lab_family *families, size_t count, const lab_family *f) {
    for (size_t i = 0; i < count; i++)
        if (families[i].file == f->file && strcmp(families[i].key, f->key) == 0 &&
            strcmp(families[i].group, f->group) == 0 &&
            strcmp(families[i].variant, f->variant) == 0)
            return true;
    return false;
}

static size_t first_of_group(const lab_report *r, const lab_family *f) {
    size_t i = 0;
    while (r->timings[i].file != f->file || strcmp(r->timings[i].group, f->group) != 0)
        i++;
    return i;
}

/* Every family with enough lengths, in the order of the timings; allocated. */
size_t lab_families_find(const lab_report *r, lab_family **out) {
    lab_family *list = NULL, *refused = NULL;
    size_t count = 0, refused_count = 0;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        lab_family f = {.file = t->file, .group = t->group, .variant = t->variant};
        if (!t->ours || !is_drawn(r, t) || !(split_length(t->problem, f.key) > 0.0) ||
            is_known(list, count, &f) || is_known(refused, refused_count, &f))
            continue;
        const bool made = family_make(&f, count_kin(&f, r));
        const bool wanted = made && gather(&f, r);
        lab_family **to = wanted ? &list : &refused;
        size_t *n = wanted ? &count : &refused_count;
        lab_family *grown = lab_report_grow(*to, *n, sizeof f, NULL);
        if (made && (!wanted || !grown))
            lab_family_free(&f);
        if (!grown)
            break;
        *to = grown;
        grown[(*n)++] = f;
    }
    for (size_t i = 0; i < count; i++)
        list[i].first = first_of_group(r, &list[i]);
    free(refused);
    *out = list;
    return count;
}
