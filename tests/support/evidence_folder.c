/* evidence_folder.c: a temporary folder in the layout of evidence/. */
#include "tests/support/evidence_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lab/base/spawn.h"
#include "tests/support/check.h"

char evidence_folder[] = "/tmp/attest_evidence_XXXXXX";

int open_evidence(void) {
    return mkdtemp(evidence_folder) ? 0 : -1;
}

int close_evidence(void) {
    const char *const clear[] = {"rm", "-rf", evidence_folder, NULL};
    lab_child child;
    lab_message why;
    const bool ok = lab_spawn(&child, clear, NULL, NULL, &why);
    lab_child_free(&child);
    return ok ? 0 : -1;
}

void write_evidence(const char *name, const char *text) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", evidence_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

void keep_statement(json_t *statement, const char *place, const char *id) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", evidence_folder, place);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/attestations", evidence_folder, place);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/attestations/%s.json", evidence_folder, place, id);
    assert_int_equal(json_dump_file(statement, path, JSON_INDENT(1)), 0);
}

lab_judged judged_statement(const char *place, const char *id) {
    lab_evidence evidence;
    lab_judgement judgement;
    lab_message why;
    if (!lab_evidence_read(&evidence, evidence_folder, &why) ||
        !lab_evidence_judge(&judgement, &evidence, NULL, &why))
        fail_msg("%s", why.text);
    lab_judged found = {.standing = LAB_STANDINGS};
    for (size_t i = 0; i < judgement.count; i++)
        if (strcmp(judgement.list[i].place, place) == 0 &&
            strcmp(judgement.list[i].kernel, id) == 0)
            found = judgement.list[i];
    if (found.standing == LAB_STANDINGS)
        fail_msg("%s of %s was not judged", id, place);
    if (found.exhibit) {
        static lab_exhibit copy;
        copy = *found.exhibit;
        found.exhibit = &copy;
    }
    lab_judgement_free(&judgement);
    lab_evidence_free(&evidence);
    return found;
}

size_t kernel_index(const char *id) {
    for (size_t i = 0; i < att_registry_count(); i++)
        if (strcmp(att_registry_row(i)->id, id) == 0)
            return i;
    fail_msg("there is no kernel %s", id);
    return 0;
}

const char *first_of_role(att_cuda_role role) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        const att_cuda_kernel *k = row->cuda;
        if (k && k->role == role && k->targets & ATT_SM90 && !k->features && !row->unattested)
            return k->id;
    }
    fail_msg("there is no such role");
    return "";
}
