/* evidence_judge.c: judges every kernel on every device. */
#include "lab/evidence/evidence_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/evidence/host_tests.h"

typedef struct bench_of_judges {
    lab_judgement *judgement;
    const lab_evidence *evidence;
    const char *signers;
} bench_of_judges;

static lab_judged *add(bench_of_judges *b, const char *place, const char *kernel,
                       bool required) {
    lab_judgement *j = b->judgement;
    if ((j->count & (j->count - 1)) == 0) { /* full: there is room for a power of two */
        lab_judged *grown = realloc(j->list, (j->count ? 2 * j->count : 1) * sizeof *grown);
        if (!grown)
            return NULL;
        j->list = grown;
    }
    lab_judged *judged = &j->list[j->count++];
    *judged = (lab_judged){.required = required,
                           .exhibit = lab_evidence_exhibit(b->evidence, place, kernel)};
    snprintf(judged->place, sizeof judged->place, "%s", place);
    snprintf(judged->kernel, sizeof judged->kernel, "%s", kernel);
    return judged;
}

static void check_signature(bench_of_judges *b, lab_judged *judged) {
    lab_message why;
    if (!judged->exhibit || !b->signers)
        return;
    judged->signature = lab_check_signature(judged->exhibit->path, b->signers, judged->signer,
                                            sizeof judged->signer, &why);
    if (judged->signature != LAB_SIGNATURE_HOLDS)
        judged->why = why;
    b->judgement->unknown |= judged->signature == LAB_SIGNATURE_UNKNOWN;
}

/* `required`: NULL if it is not required. */
static bool judge_row(bench_of_judges *b, const char *place, const att_kernel_row *row,
                      const lab_required *required) {
    lab_judged *judged = add(b, place, row->id, required != NULL);
    if (!judged)
        return false;
    judged->partial_will_do = required && required->partial;
    judged->pending = lab_evidence_is_pending(b->evidence, place, row->id);
    judged->standing = lab_evidence_standing(b->evidence, place, row, &judged->why);
    if (judged->pending && judged->standing == LAB_CURRENT)
        lab_fail(&judged->why, "exists: remove its pending line from required.txt");
    if (judged->standing == LAB_CURRENT && judged->exhibit->attestation.partial) {
        judged->standing = LAB_PARTIAL;
        lab_fail(&judged->why,
                 "made with other suites, or another seed, than attest certify's own");
    }
    check_signature(b, judged);
    return true;
}

/* Judge the kernels that a device runs; for a CPU that is known only by its files, those that
 * have files. */
static bool judge_place(bench_of_judges *b, const char *place, int cc, att_isa isa,
                        const lab_required *required) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        const bool filed = lab_evidence_exhibit(b->evidence, place, row->id);
        const bool wanted =
            lab_kernel_ships_attested(row, cc) && lab_kernel_runs_on(row, cc, isa);
        if ((wanted || filed) && !judge_row(b, place, row, wanted ? required : NULL))
            return false;
    }
    return true;
}

/* Files about kernels that the library does not have. */
static bool judge_strays(bench_of_judges *b) {
    for (size_t i = 0; i < b->evidence->count; i++) {
        const lab_exhibit *e = &b->evidence->exhibits[i];
        bool known = false;
        for (size_t row = 0; row < att_registry_count() && !known; row++)
            known = strcmp(att_registry_row(row)->id, e->kernel) == 0;
        if (known)
            continue;
        lab_judged *judged = add(b, e->place, e->kernel, false);
        if (!judged)
            return false;
        judged->standing = e->attestation.peer ? LAB_ELSEWHERE : LAB_STALE;
        if (!e->sound)
            judged->why = e->why;
        else if (e->attestation.peer)
            lab_fail(&judged->why, "a plug-in: its file is not part of this library");
        else
            lab_fail(&judged->why, "%s: there is no such kernel: remove the file", e->path);
        check_signature(b, judged);
    }
    return true;
}

static bool is_required(const lab_evidence *evidence, const char *place) {
    for (size_t i = 0; i < evidence->required_count; i++)
        if (strcmp(evidence->required[i].place, place) == 0)
            return true;
    return false;
}

/* Check that the file is signed as required if signers are given. */
static void check_file_signature(bench_of_judges *b, lab_judged_file *file, const char *path) {
    char who[128];
    if (!b->signers || file->fails)
        return;
    const lab_signature signature =
        lab_check_signature(path, b->signers, who, sizeof who, &file->why);
    file->fails = signature == LAB_SIGNATURE_BROKEN;
    b->judgement->unknown |= signature == LAB_SIGNATURE_UNKNOWN;
}

/* The next of the files; NULL: no memory. */
static lab_judged_file *add_file(lab_judgement *j, bool fails) {
    lab_judged_file *grown = realloc(j->files, (j->file_count + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    j->files = grown;
    grown[j->file_count] = (lab_judged_file){.fails = fails};
    return &grown[j->file_count++];
}

static bool judge_list(bench_of_judges *b, const char *name, bool there, bool wanted) {
    char path[1024];
    if (!there && !wanted)
        return true;
    lab_judged_file *file = add_file(b->judgement, !there);
    if (!file)
        return false;
    snprintf(file->name, sizeof file->name, "%s", name);
    snprintf(path, sizeof path, "%s/%s", b->evidence->folder, name);
    if (!there)
        lab_fail(&file->why, "%s: is missing: it lists the devices whose evidence must be here",
                 path);
    check_file_signature(b, file, path);
    return true;
}

/* PLACE/host.json: if a GPU's evidence is required, it must exist and be current; otherwise it
 * must be consistent. */
static bool judge_host(bench_of_judges *b, const char *place, bool required) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/host.json", b->evidence->folder, place);
    const bool there = access(path, F_OK) == 0;
    if (!there && !required)
        return true;
    const bool pending = lab_evidence_is_pending(b->evidence, place, "host.json");
    lab_judged_file *file = add_file(b->judgement, !there && !pending);
    if (!file)
        return false;
    snprintf(file->name, sizeof file->name, "%s/host.json", place);
    if (!there) {
        lab_fail(&file->why,
                 "%s: is missing: run tests/gpu/gpu_tests.sh there, then attest certify "
                 "--host-tests",
                 path);
        return true;
    }
    const lab_host_standing standing = lab_host_tests_judge(path, place, &file->why);
    file->fails =
        standing == LAB_HOST_BROKEN || (standing == LAB_HOST_STALE && required && !pending);
    check_file_signature(b, file, path);
    return true;
}

static bool judge_all(bench_of_judges *b) {
    const lab_evidence *evidence = b->evidence;
    bool ok =
        judge_list(b, "required.txt", evidence->lists_required, evidence->folder[0] != '\0') &&
        judge_list(b, "harnesses.txt", evidence->lists_clocks, false);
    for (size_t i = 0; ok && i < evidence->required_count; i++) {
        const lab_required *r = &evidence->required[i];
        ok = judge_place(b, r->place, r->cc, r->isa, r) && judge_host(b, r->place, r->cc > 0);
    }
    for (size_t i = 0; ok && i < lab_evidence_places(evidence); i++) {
        const char *place = lab_evidence_place(evidence, i);
        const int cc = lab_evidence_place_cc(evidence, place);
        if (!is_required(evidence, place))
            ok = judge_place(b, place, cc > 0 ? cc : 0, ATT_ISA_AUTO, NULL) &&
                 judge_host(b, place, false);
    }
    return ok && judge_strays(b);
}

bool lab_evidence_judge(lab_judgement *judgement, const lab_evidence *evidence,
                        const char *signers, lab_message *why) {
    *judgement = (lab_judgement){.count = 0};
    bench_of_judges b = {.judgement = judgement, .evidence = evidence, .signers = signers};
    if (signers && !lab_signers_there(signers, why))
        return false;
    if (judge_all(&b))
        return true;
    lab_judgement_free(judgement);
    return lab_fail(why, "no memory for the evidence");
}

void lab_judgement_free(lab_judgement *judgement) {
    free(judgement->list);
    free(judgement->files);
    *judgement = (lab_judgement){.count = 0};
}

bool lab_judged_fails(const lab_judged *judged) {
    const lab_exhibit *e = judged->exhibit;
    if (e && (!e->sound || judged->signature == LAB_SIGNATURE_BROKEN))
        return true;
    if (judged->pending) /* one that exists must come off the list */
        return judged->standing == LAB_CURRENT;
    return judged->required && judged->standing != LAB_CURRENT &&
           judged->standing != LAB_ELSEWHERE &&
           !(judged->standing == LAB_PARTIAL && judged->partial_will_do);
}

void lab_judged_signature(const lab_judged *judged, char *buf, size_t n) {
    const lab_exhibit *e = judged->exhibit;
    if (!e)
        buf[0] = '\0';
    else if (!e->is_signed)
        snprintf(buf, n, "unsigned"); /* whether or not that is allowed */
    else if (judged->signature == LAB_SIGNATURE_BROKEN)
        snprintf(buf, n, "broken signature");
    else if (judged->signature == LAB_SIGNATURE_HOLDS && *judged->signer)
        snprintf(buf, n, "signed by %s", judged->signer);
    else
        snprintf(buf, n, "signed, not checked");
}
