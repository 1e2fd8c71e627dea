/* evidence_files.c: searches the folders of evidence/. */
#include "lab/evidence/evidence_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/base/data_file.h"
#include "lab/base/machine.h"

static const lab_data_kind evidence_kind = {.what = "evidence",
                                            .folder = "evidence",
                                            .suffix = ".txt",
                                            .environment = "ATTEST_EVIDENCE"};

bool lab_evidence_find(lab_evidence *evidence, const char *folder, lab_message *why) {
    if (!folder)
        return lab_data_folder(&evidence_kind, evidence->folder, sizeof evidence->folder);
    struct stat info;
    if (strlen(folder) >= sizeof evidence->folder)
        return lab_fail(why, "%.200s...: the name is too long", folder);
    if (stat(folder, &info) != 0)
        return lab_fail(why, "%s: %s", folder, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return lab_fail(why, "%s: is not a folder", folder);
    snprintf(evidence->folder, sizeof evidence->folder, "%s", folder);
    return true;
}

/* KERNEL of "KERNEL.json"; false for other files, and for names too long for a kernel. */
static bool kernel_of(const char *file, char *kernel, size_t n) {
    static const char suffix[] = ".json";
    const size_t length = strlen(file), tail = sizeof suffix - 1;
    if (length <= tail || length - tail >= n || strcmp(file + length - tail, suffix) != 0)
        return false;
    snprintf(kernel, n, "%.*s", (int)(length - tail), file);
    return true;
}

static void read_exhibit(lab_exhibit *e, const lab_suite_set usual[2], lab_claims *claims) {
    e->sound = lab_attestation_read(&e->attestation, e->path, usual, claims, &e->why);
    if (e->sound && strcmp(e->attestation.kernel, e->kernel) != 0)
        e->sound =
            lab_fail(&e->why, "%s: kernel: is that of %s", e->path, e->attestation.kernel);
    if (e->sound && strcmp(e->attestation.place, e->place) != 0)
        e->sound = lab_fail(&e->why, "%s: machine: %s belongs in the folder %s, not %s",
                            e->path, e->attestation.device, e->attestation.place, e->place);
    char signature[sizeof e->path + 8];
    snprintf(signature, sizeof signature, "%s.sig", e->path);
    e->is_signed = access(signature, F_OK) == 0;
}

static bool add_exhibit(lab_evidence *evidence, const char *place, const char *file,
                        lab_message *why) {
    lab_exhibit found = {.sound = false};
    if (!kernel_of(file, found.kernel, sizeof found.kernel))
        return true;
    lab_exhibit *grown =
        realloc(evidence->exhibits, (evidence->count + 1) * sizeof *evidence->exhibits);
    if (!grown)
        return lab_fail(why, "no memory for the evidence");
    evidence->exhibits = grown;
    snprintf(found.place, sizeof found.place, "%s", place);
    const int length = snprintf(found.path, sizeof found.path, "%s/%s/attestations/%s",
                                evidence->folder, place, file);
    if (length < 0 || (size_t)length >= sizeof found.path)
        return lab_fail(why, "%s: a name in it is too long", evidence->folder);
    const size_t first = evidence->claims.count;
    read_exhibit(&found, evidence->usual, &evidence->claims);
    if (!found.sound)
        evidence->claims.count = first;
    for (size_t i = first; i < evidence->claims.count; i++)
        evidence->claims.list[i].statement = (uint32_t)evidence->count;
    evidence->exhibits[evidence->count++] = found;
    return true;
}

/* Call `visit` with every name in a folder, sorted, except those that begin with a dot. */
static bool each_name(const char *folder,
                      bool (*visit)(lab_evidence *, const char *, const char *, lab_message *),
                      lab_evidence *evidence, const char *context, lab_message *why) {
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, NULL, alphasort);
    bool ok = true;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        ok = ok && (name[0] == '.' || visit(evidence, context, name, why));
        free(entries[i]);
    }
    free(entries);
    return ok;
}

static bool visit_place(lab_evidence *evidence, const char *context, const char *place,
                        lab_message *why) {
    (void)context;
    char folder[1024];
    if (strlen(place) >= sizeof evidence->exhibits->place)
        return true;
    snprintf(folder, sizeof folder, "%s/%s/attestations", evidence->folder, place);
    return each_name(folder, add_exhibit, evidence, place, why);
}

/* A statement that differs from the others about a problem is not sound. */
static void report_difference(void *context, const lab_difference *d) {
    lab_evidence *evidence = context;
    const lab_claim *claim = d->claim;
    lab_exhibit *e = &evidence->exhibits[claim->statement];
    char field[48];
    if (!e->sound)
        return;
    if (strcmp(d->field, "bar") == 0)
        snprintf(field, sizeof field, "error_%s.bar", claim->output);
    else
        snprintf(field, sizeof field, "%s", d->field);
    e->sound = lab_fail(
        &e->why,
        "%s: predicate.%s[%u].verify.%s: is %.10g, but %.10g for the same problem in %s",
        e->path, claim->timed ? "timed" : "verified", (unsigned)claim->at, field, d->value,
        d->usual_value, evidence->exhibits[d->usual->statement].path);
}

bool lab_evidence_read_exhibits(lab_evidence *evidence, lab_message *why) {
    const bool ok = each_name(evidence->folder, visit_place, evidence, NULL, why);
    if (ok)
        lab_claims_compare(&evidence->claims, report_difference, evidence);
    lab_claims_free(&evidence->claims);
    return ok;
}

/* "sm_90", or an instruction set. */
static bool parse_target(lab_required *required, const char *text) {
    char *end;
    if (strncmp(text, "sm_", 3) == 0) {
        const long cc = strtol(text + 3, &end, 10);
        required->cc = cc > 0 && cc < 1000 && !*end ? (int)cc : 0;
        return att_cuda_target_bit(required->cc) != 0;
    }
    return lab_isa_parse(&required->isa, text) && required->isa != ATT_ISA_AUTO;
}

static bool add_pending(lab_evidence *evidence, const char *line, const char *where,
                        lab_message *why) {
    lab_pending pending;
    char reason[2];
    if (sscanf(line, "pending %63s %63s %1s", pending.place, pending.name, reason) != 3)
        return lab_fail(why, "%s: expected 'pending', a device, a kernel and a reason", where);
    lab_pending *grown =
        realloc(evidence->pending, (evidence->pending_count + 1) * sizeof *evidence->pending);
    if (!grown)
        return lab_fail(why, "%s: no memory", where);
    evidence->pending = grown;
    evidence->pending[evidence->pending_count++] = pending;
    return true;
}

static bool add_required(lab_evidence *evidence, const char *line, const char *where,
                         lab_message *why) {
    if (strncmp(line, "pending ", 8) == 0)
        return add_pending(evidence, line, where, why);
    lab_required required = {.cc = 0};
    char target[32], suites[32], rest[2];
    const int words = sscanf(line, "%63s %31s %31s %1s", required.place, target, suites, rest);
    if (words <= 0)
        return true;
    required.partial = words == 3 && strcmp(suites, "partial") == 0;
    if (words != 2 + required.partial || !parse_target(&required, target))
        return lab_fail(why,
                        "%s: expected a device and what it runs, as in 'h200 sm_90' or "
                        "'xeon-amx amx', and perhaps 'partial'",
                        where);
    lab_required *grown = realloc(evidence->required,
                                  (evidence->required_count + 1) * sizeof *evidence->required);
    if (!grown)
        return lab_fail(why, "%s: no memory", where);
    evidence->required = grown;
    evidence->required[evidence->required_count++] = required;
    return true;
}

static bool add_clock(lab_evidence *evidence, const char *line, const char *where,
                      lab_message *why) {
    char kind[16], date[16], reason[2];
    lab_old_clock clock = {.sha256 = ""};
    const int words = sscanf(line, "%15s %64s %15s %1s", kind, clock.sha256, date, reason);
    if (words <= 0)
        return true;
    if (words != 4 || strcmp(kind, "clock") != 0 || strlen(clock.sha256) != 64)
        return lab_fail(why, "%s: expected 'clock', a sha256, a date and a reason", where);
    lab_old_clock *grown =
        realloc(evidence->clocks, (evidence->clock_count + 1) * sizeof *evidence->clocks);
    if (!grown)
        return lab_fail(why, "%s: no memory", where);
    evidence->clocks = grown;
    evidence->clocks[evidence->clock_count++] = clock;
    return true;
}

/* Pass every line of a list to `add`, without comments. */
static bool each_line(lab_evidence *evidence, const char *name, bool *there,
                      bool (*add)(lab_evidence *, const char *, const char *, lab_message *),
                      lab_message *why) {
    char path[1024], where[1100], line[512];
    snprintf(path, sizeof path, "%s/%s", evidence->folder, name);
    FILE *file = fopen(path, "r");
    *there = file != NULL;
    if (!file)
        return errno == ENOENT || lab_fail(why, "%s: %s", path, strerror(errno));
    bool ok = true;
    for (int number = 1; ok && fgets(line, sizeof line, file); number++) {
        line[strcspn(line, "#\n")] = '\0';
        snprintf(where, sizeof where, "%s:%d", path, number);
        ok = add(evidence, line, where, why);
    }
    fclose(file);
    return ok;
}

bool lab_evidence_read_required(lab_evidence *evidence, lab_message *why) {
    return each_line(evidence, "required.txt", &evidence->lists_required, add_required, why);
}

bool lab_evidence_read_clocks(lab_evidence *evidence, lab_message *why) {
    return each_line(evidence, "harnesses.txt", &evidence->lists_clocks, add_clock, why);
}
