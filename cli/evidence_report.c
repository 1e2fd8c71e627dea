/* evidence_report.c: prints judgements. */
#include "cli/evidence_report.h"

#include <string.h>

void cli_evidence_cell(const lab_judgement *judgement, const char *kernel, char *buf,
                       size_t n) {
    size_t used = 0;
    snprintf(buf, n, "-");
    for (size_t i = 0; i < judgement->count && used < n; i++) {
        const lab_judged *j = &judgement->list[i];
        if (strcmp(j->kernel, kernel) == 0)
            used += (size_t)snprintf(buf + used, n - used, "%s%s: %s", used ? ", " : "",
                                     j->place, lab_standing_name(j->standing));
    }
}

void cli_evidence_summary(const lab_judgement *judgement, const char *kernel, char *buf,
                          size_t n) {
    size_t counts[LAB_STANDINGS] = {0}, devices = 0, used = 0;
    for (size_t i = 0; i < judgement->count; i++)
        if (strcmp(judgement->list[i].kernel, kernel) == 0) {
            counts[judgement->list[i].standing]++;
            devices++;
        }
    if (devices < 2) {
        cli_evidence_cell(judgement, kernel, buf, n);
        return;
    }
    for (int s = 0; s < LAB_STANDINGS && used < n; s++)
        if (counts[s])
            used += (size_t)snprintf(buf + used, n - used, "%s%zu %s", used ? ", " : "",
                                     counts[s], lab_standing_name((lab_standing)s));
}

void cli_evidence_targets(const att_kernel_info *kernel, char *buf, size_t n) {
    char missing[64] = "";
    const size_t used = strlen(buf);
    if (kernel->unattested)
        snprintf(buf, n, "unattested, off");
    else if (!kernel->user && !kernel->rung)
        lab_kernel_unattested_by_id(kernel->id, missing, sizeof missing);
    if (*missing)
        snprintf(buf + used, n - used, "; off on %s", missing);
}

json_t *cli_evidence_array(const lab_judgement *judgement, const char *kernel) {
    json_t *array = json_array();
    for (size_t i = 0; i < judgement->count; i++) {
        const lab_judged *j = &judgement->list[i];
        char signature[192];
        if (kernel && strcmp(j->kernel, kernel) != 0)
            continue;
        lab_judged_signature(j, signature, sizeof signature);
        json_array_append_new(
            array, json_pack("{s:s, s:s, s:s, s:b, s:b, s:s, s:s}", "device", j->place,
                             "kernel", j->kernel, "standing", lab_standing_name(j->standing),
                             "required", j->required, "fails", lab_judged_fails(j), "signature",
                             signature, "why", j->why.text));
    }
    return array;
}

json_t *cli_evidence_files(const lab_judgement *judgement) {
    json_t *array = json_array();
    for (size_t i = 0; i < judgement->file_count; i++) {
        const lab_judged_file *f = &judgement->files[i];
        json_array_append_new(array, json_pack("{s:s, s:b, s:s}", "name", f->name, "fails",
                                               f->fails, "why", f->why.text));
    }
    return array;
}

/* Counts for a device: the kernels of each standing, and those whose files are signed. */
static void put_device(FILE *text, const lab_judgement *judgement, size_t first, size_t end) {
    size_t counts[LAB_STANDINGS] = {0}, is_signed = 0, files = 0;
    for (size_t i = first; i < end; i++) {
        const lab_exhibit *e = judgement->list[i].exhibit;
        counts[judgement->list[i].standing]++;
        files += e != NULL;
        is_signed += e && e->is_signed;
    }
    fprintf(text, "%s: %zu kernel%s", judgement->list[first].place, end - first,
            end - first == 1 ? "" : "s");
    for (int s = 0; s < LAB_STANDINGS; s++)
        if (counts[s])
            fprintf(text, ", %zu %s", counts[s], lab_standing_name((lab_standing)s));
    if (files && is_signed == 0)
        fputs("; unsigned: this shows what was measured, not by whom", text);
    else if (files)
        fprintf(text, "; %zu of %zu files signed", is_signed, files);
    fputc('\n', text);
}

size_t cli_put_faults(FILE *text, const lab_judgement *judgement) {
    size_t failed = 0;
    for (size_t i = 0; i < judgement->file_count; i++) {
        const lab_judged_file *f = &judgement->files[i];
        failed += f->fails;
        if (f->fails || f->why.text[0])
            fprintf(text, "%s %s: %s\n", f->fails ? "FAIL" : "note", f->name, f->why.text);
    }
    for (size_t i = 0; i < judgement->count; i++) {
        const lab_judged *j = &judgement->list[i];
        const bool fails = lab_judged_fails(j);
        failed += fails;
        if (fails || j->why.text[0])
            fprintf(text, "%s %-8s %s: %s: %s\n", fails ? "FAIL" : "note", j->place, j->kernel,
                    lab_standing_name(j->standing), j->why.text);
    }
    return failed;
}

void cli_put_standings(FILE *text, const lab_judgement *judgement) {
    for (size_t first = 0; first < judgement->count;) {
        size_t end = first;
        while (end < judgement->count &&
               strcmp(judgement->list[end].place, judgement->list[first].place) == 0)
            end++;
        put_device(text, judgement, first, end);
        first = end;
    }
}
