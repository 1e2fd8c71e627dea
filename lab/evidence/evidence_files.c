/* evidence_files.c: looking through the folders of evidence/. */
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

/* KERNEL of "KERNEL.json"; false for other files, and for names too long to be a kernel's. */
static bool kernel_of(const char *file, char *kernel, size_t n) {
    static const char suffix[] = ".json";
    const size_t length = strlen(file), tail = sizeof suffix - 1;
    if (length <= tail || length - tail >= n || strcmp(file + length - tail, suffix) != 0)
        return false;
    snprintf(kernel, n, "%.*s", (int)(length - tail), file);
    return true;
}

static void read_exhibit(lab_exhibit *e) {
    e->sound = lab_attestation_read(&e->attestation, e->path, &e->why);
    if (e->sound && strcmp(e->attestation.kernel, e->kernel) != 0)
        e->sound = lab_fail(&e->why, "%s: kernel: is of %s", e->path, e->attestation.kernel);
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
    read_exhibit(&found);
    evidence->exhibits[evidence->count++] = found;
    return true;
}

/* Call `visit` with every name in a folder, sorted, but those that begin with a dot. */
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

bool lab_evidence_read_exhibits(lab_evidence *evidence, lab_message *why) {
    return each_name(evidence->folder, visit_place, evidence, NULL, why);
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

static bool add_required(lab_evidence *evidence, const lab_required *required) {
    lab_required *grown = realloc(evidence->required,
                                  (evidence->required_count + 1) * sizeof *evidence->required);
    if (!grown)
        return false;
    evidence->required = grown;
    evidence->required[evidence->required_count++] = *required;
    return true;
}

bool lab_evidence_read_required(lab_evidence *evidence, lab_message *why) {
    char path[1024], line[256];
    snprintf(path, sizeof path, "%s/required.txt", evidence->folder);
    FILE *file = fopen(path, "r");
    if (!file)
        return errno == ENOENT || lab_fail(why, "%s: %s", path, strerror(errno));
    bool ok = true;
    for (int number = 1; ok && fgets(line, sizeof line, file); number++) {
        lab_required required = {.cc = 0};
        char target[32], suites[32], rest[2];
        line[strcspn(line, "#\n")] = '\0';
        const int words =
            sscanf(line, "%63s %31s %31s %1s", required.place, target, suites, rest);
        if (words <= 0)
            continue;
        required.partial = words == 3 && strcmp(suites, "partial") == 0;
        if (words != 2 + required.partial || !parse_target(&required, target))
            ok = lab_fail(why,
                          "%s:%d: a device and what it runs are wanted, as in 'h200 sm_90' or "
                          "'xeon-amx amx', and perhaps 'partial'",
                          path, number);
        else if (!add_required(evidence, &required))
            ok = lab_fail(why, "%s: no memory", path);
    }
    fclose(file);
    return ok;
}
