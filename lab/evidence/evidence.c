/* evidence.c: the standing of kernels. */
#include "lab/evidence/evidence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/features.h"
#include "lab/evidence/evidence_files.h"

const char *lab_standing_name(lab_standing standing) {
    static const char *const names[LAB_STANDINGS] = {
        [LAB_CURRENT] = "current", [LAB_ELSEWHERE] = "other compiler",
        [LAB_PARTIAL] = "partial", [LAB_STALE] = "stale",
        [LAB_MISSING] = "missing",
    };
    return names[standing];
}

bool lab_evidence_read(lab_evidence *evidence, const char *folder, lab_message *why) {
    *evidence = (lab_evidence){.count = 0};
    if (!lab_evidence_find(evidence, folder, why))
        return !folder;
    if (lab_suite_set_read(&evidence->usual[0], false, NULL, NULL, why) &&
        lab_suite_set_read(&evidence->usual[1], true, NULL, NULL, why) &&
        lab_evidence_read_exhibits(evidence, why) &&
        lab_evidence_read_required(evidence, why) && lab_evidence_read_clocks(evidence, why))
        return true;
    lab_evidence_free(evidence);
    return false;
}

void lab_evidence_free(lab_evidence *evidence) {
    free(evidence->exhibits);
    free(evidence->pending);
    free(evidence->required);
    free(evidence->clocks);
    for (size_t i = 0; i < 2; i++)
        lab_suite_set_free(&evidence->usual[i]);
    *evidence = (lab_evidence){.count = 0};
}

bool lab_kernel_ships_attested(const att_kernel_row *row, int cc) {
    if (row->unattested)
        return false;
    return !row->cuda || (row->cuda->role != ATT_ROLE_RUNG &&
                          att_row_attested_targets(row) & att_cuda_target_bit(cc));
}

void lab_kernel_unattested_on(const att_kernel_row *row, char *buf, size_t n) {
    static const int capabilities[] = {80, 86, 89, 90};
    const uint32_t missing =
        row->cuda ? row->cuda->targets & ~att_row_attested_targets(row) : 0;
    size_t used = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0] && used < n; i++)
        if (missing & att_cuda_target_bit(capabilities[i]))
            used += (size_t)snprintf(buf + used, n - used, "%ssm_%d", used ? " " : "",
                                     capabilities[i]);
}

void lab_kernel_unattested_by_id(const char *id, char *buf, size_t n) {
    buf[0] = '\0';
    for (size_t i = 0; i < att_registry_count(); i++)
        if (strcmp(att_registry_row(i)->id, id) == 0)
            lab_kernel_unattested_on(att_registry_row(i), buf, n);
}

bool lab_kernel_runs_on(const att_kernel_row *row, int cc, att_isa isa) {
    if (cc == 0)
        return !row->cuda && att_isa_includes(isa, row->isa);
    return row->cuda && row->cuda->targets & att_cuda_target_bit(cc);
}

const lab_exhibit *lab_evidence_exhibit(const lab_evidence *evidence, const char *place,
                                        const char *kernel) {
    for (size_t i = 0; i < evidence->count; i++)
        if (strcmp(evidence->exhibits[i].place, place) == 0 &&
            strcmp(evidence->exhibits[i].kernel, kernel) == 0)
            return &evidence->exhibits[i];
    return NULL;
}

/* Compare the statement `a` with the current contents of the library. */
static lab_standing compare(const lab_attestation *a, const att_kernel_row *row,
                            lab_message *why) {
    lab_code_digests now;
    if (!lab_code_digests_of(&now, row, a->cc, why))
        return LAB_STALE;
    if (strcmp(a->source, now.source) != 0) {
        lab_fail(why, "its sources have changed since %s", a->made);
        return LAB_STALE;
    }
    const bool same_compiler = strcmp(a->compiler, now.compiler) == 0;
    if (strcmp(a->code, now.code) == 0 && (row->cuda || same_compiler))
        return LAB_CURRENT;
    if (row->cuda && !*now.code)
        lab_fail(why, "this library has no machine code of it; its sources are as attested");
    else if (!same_compiler)
        lab_fail(why, "built by %s, attested as built by %s", now.compiler, a->compiler);
    else {
        lab_fail(why, "its machine code is not the one attested on %s", a->made);
        return LAB_STALE;
    }
    return LAB_ELSEWHERE;
}

static bool clock_holds(const lab_evidence *evidence, const char *sha256) {
    if (strcmp(sha256, lab_built_digest("clock")) == 0)
        return true;
    for (size_t i = 0; i < evidence->clock_count; i++)
        if (strcmp(sha256, evidence->clocks[i].sha256) == 0)
            return true;
    return false;
}

/* Whether it was measured as this laboratory would. The code that decides right or wrong must
 * be the same; the code that decides times must be the same or listed. */
static bool measured_as_now(const lab_evidence *evidence, const lab_exhibit *e,
                            lab_message *why) {
    const lab_attestation *a = &e->attestation;
    if (strcmp(a->judge, lab_built_digest("judge")) != 0)
        return lab_fail(why, "%s: harness.judge_sha256: judged by another harness, on %s",
                        e->path, a->made);
    if (!clock_holds(evidence, a->clock))
        return lab_fail(why,
                        "%s: harness.clock_sha256: timed by another harness, which "
                        "%s/harnesses.txt does not list",
                        e->path, evidence->folder);
    return !a->other_problems.text[0] || lab_fail(why, "%s", a->other_problems.text);
}

lab_standing lab_evidence_standing(const lab_evidence *evidence, const char *place,
                                   const att_kernel_row *row, lab_message *why) {
    why->text[0] = '\0';
    const lab_exhibit *exhibit = lab_evidence_exhibit(evidence, place, row->id);
    if (!exhibit) {
        lab_fail(why, "%s/%s/attestations has no %s.json", evidence->folder, place, row->id);
        return LAB_MISSING;
    }
    if (!exhibit->sound) {
        *why = exhibit->why;
        return LAB_STALE;
    }
    const lab_standing standing = compare(&exhibit->attestation, row, why);
    return standing == LAB_STALE || measured_as_now(evidence, exhibit, why) ? standing
                                                                            : LAB_STALE;
}

/* Whether this is the first exhibit of its place; exhibits are sorted, so those of a place are
 * adjacent. */
static bool begins_place(const lab_evidence *evidence, size_t i) {
    return i == 0 || strcmp(evidence->exhibits[i].place, evidence->exhibits[i - 1].place) != 0;
}

size_t lab_evidence_places(const lab_evidence *evidence) {
    size_t count = 0;
    for (size_t i = 0; i < evidence->count; i++)
        count += begins_place(evidence, i);
    return count;
}

const char *lab_evidence_place(const lab_evidence *evidence, size_t i) {
    size_t seen = 0;
    for (size_t e = 0; e < evidence->count; e++)
        if (begins_place(evidence, e) && seen++ == i)
            return evidence->exhibits[e].place;
    return "";
}

int lab_evidence_place_cc(const lab_evidence *evidence, const char *place) {
    for (size_t i = 0; i < evidence->count; i++)
        if (evidence->exhibits[i].sound && strcmp(evidence->exhibits[i].place, place) == 0)
            return evidence->exhibits[i].attestation.cc;
    return -1;
}

bool lab_evidence_is_pending(const lab_evidence *evidence, const char *place,
                             const char *name) {
    for (size_t i = 0; i < evidence->pending_count; i++)
        if (strcmp(evidence->pending[i].place, place) == 0 &&
            strcmp(evidence->pending[i].name, name) == 0)
            return true;
    return false;
}
