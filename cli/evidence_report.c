/* evidence_report.c: reads and prints judgements. */
#include "cli/evidence_report.h"

#include <string.h>

#include "lab/base/screen.h"
#include "lab/base/ticker.h"

cli_exit cli_evidence_read(const cli_options *o, lab_evidence *evidence,
                           lab_judgement *judgement) {
    lab_ticker ticker;
    lab_message why;
    *judgement = (lab_judgement){.count = 0};
    lab_ticker_start(&ticker, stderr, "reading evidence", 1, 0.0);
    const bool ok = lab_evidence_read(evidence, o->evidence, &why) &&
                    lab_evidence_judge(judgement, evidence, o->signers, &why);
    lab_ticker_stop(&ticker);
    if (!ok)
        cli_complain(o, "%s", why.text);
    return ok ? CLI_HOLDS : CLI_USAGE;
}

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

void cli_evidence_here(const lab_judgement *judgement, const char *place, const char *kernel,
                       char *buf, size_t n) {
    snprintf(buf, n, "none here");
    for (size_t i = 0; i < judgement->count; i++) {
        const lab_judged *j = &judgement->list[i];
        if (strcmp(j->place, place) == 0 && strcmp(j->kernel, kernel) == 0)
            snprintf(buf, n, "%s", lab_standing_name(j->standing));
    }
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
typedef struct tally {
    const char *place;
    size_t kernels, of[LAB_STANDINGS], files, is_signed;
    size_t gpu; /* of files that are about GPU kernels */
} tally;

/* Count the kernels of the device whose first one is `first`; returns the first of the next. */
static size_t count_device(tally *t, const lab_judgement *judgement, size_t first) {
    size_t i = first;
    *t = (tally){.place = judgement->list[first].place};
    for (; i < judgement->count && strcmp(judgement->list[i].place, t->place) == 0; i++) {
        const lab_exhibit *e = judgement->list[i].exhibit;
        t->kernels++;
        t->of[judgement->list[i].standing]++;
        t->files += e != NULL;
        t->is_signed += e && e->is_signed;
        t->gpu += e && e->attestation.cc > 0;
    }
    return i;
}

static void put_counts(FILE *text, const tally *t, const char *separator) {
    for (int s = 0; s < LAB_STANDINGS; s++)
        if (t->of[s]) {
            fprintf(text, "%s%zu %s", separator, t->of[s], lab_standing_name((lab_standing)s));
            separator = ", ";
        }
}

static void put_device(FILE *text, const tally *t) {
    fprintf(text, "%s: %zu kernel%s", t->place, t->kernels, t->kernels == 1 ? "" : "s");
    put_counts(text, t, ", ");
    if (t->files && t->is_signed == 0)
        fputs("; unsigned: this shows what was measured, not by whom", text);
    else if (t->files)
        fprintf(text, "; %zu of %zu files signed", t->is_signed, t->files);
    fputc('\n', text);
}

/* Write a message without the folder's name before the paths in it. */
static void put_relative(FILE *text, const char *message, const char *folder) {
    const size_t length = strlen(folder);
    for (const char *at = message; *at;) {
        const bool begins = at == message || at[-1] == ' ';
        if (begins && length && strncmp(at, folder, length) == 0 && at[length] == '/')
            at += length + 1;
        else
            fputc(*at++, text);
    }
    fputc('\n', text);
}

static void put_word(FILE *text, bool fails) {
    lab_put_verdict(text, fails ? "FAIL" : "note");
}

size_t cli_put_faults(FILE *text, const lab_judgement *judgement, const char *folder) {
    size_t failed = 0;
    for (size_t i = 0; i < judgement->file_count; i++) {
        const lab_judged_file *f = &judgement->files[i];
        failed += f->fails;
        if (!f->fails && !f->why.text[0])
            continue;
        put_word(text, f->fails);
        fprintf(text, " %s: ", f->name);
        put_relative(text, f->why.text, folder);
    }
    for (size_t i = 0; i < judgement->count; i++) {
        const lab_judged *j = &judgement->list[i];
        const bool fails = lab_judged_fails(j);
        failed += fails;
        if (!fails && !j->why.text[0])
            continue;
        put_word(text, fails);
        fprintf(text, " %-8s %s: %s: ", j->place, j->kernel, lab_standing_name(j->standing));
        put_relative(text, j->why.text, folder);
    }
    return failed;
}

void cli_put_standings(FILE *text, const lab_judgement *judgement) {
    tally t;
    for (size_t i = 0; i < judgement->count;) {
        i = count_device(&t, judgement, i);
        put_device(text, &t);
    }
}

static bool is_among(const char *place, const char *const *places, size_t count) {
    while (count > 0 && strcmp(places[count - 1], place) != 0)
        count--;
    return count > 0;
}

void cli_put_standings_here(FILE *text, const lab_judgement *judgement,
                            const char *const *places, size_t count) {
    const char *separator = "other devices: ";
    tally t;
    for (size_t i = 0; i < judgement->count;) {
        i = count_device(&t, judgement, i);
        if (is_among(t.place, places, count)) {
            fputs("this machine, ", text);
            put_device(text, &t);
        }
    }
    for (size_t i = 0; i < judgement->count;) {
        i = count_device(&t, judgement, i);
        if (is_among(t.place, places, count))
            continue;
        fprintf(text, "%s%s", separator, t.place);
        if (!lab_has_gpu_code() && t.gpu == t.of[LAB_ELSEWHERE] && t.gpu == t.kernels)
            fprintf(text, " %zu, which this build without nvcc cannot compare", t.kernels);
        else
            put_counts(text, &t, " ");
        separator = "; ";
    }
    if (*separator == ';')
        fputc('\n', text);
}
