/* attestation.c: writes statements, and reads everything in them except the problems. */
#include "lab/evidence/attestation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json_load.h"
#include "lab/base/json_node.h"
#include "lab/base/machine.h"
#include "lab/evidence/attested_problems.h"
#include "lab/evidence/place.h"

/* ------------------------------------------------------------------- writing */

static void add_subject(json_t *subjects, const char *id, const char *part,
                        const char *sha256) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", id, part);
    json_array_append_new(
        subjects, json_pack("{s:s, s:{s:s}}", "name", name, "digest", "sha256", sha256));
}

json_t *lab_attestation_make(const char *id, int cc, const lab_code_digests *digests,
                             json_t *predicate) {
    json_t *subjects = json_array();
    char part[24];
    snprintf(part, sizeof part, "sm_%d", cc);
    if (*digests->code)
        add_subject(subjects, id, part, digests->code);
    if (*digests->source)
        add_subject(subjects, id, "source", digests->source);
    if (*digests->library)
        add_subject(subjects, id, "library", digests->library);
    return json_pack("{s:s, s:o, s:s, s:o}", "_type", LAB_STATEMENT_TYPE, "subject", subjects,
                     "predicateType", LAB_PREDICATE_TYPE, "predicate", predicate);
}

/* ------------------------------------------------------------------- reading */

bool lab_attested_subject(const lab_node *statement, const char *kernel, const char *part,
                          char out[ATT_SHA256_HEX], lab_message *why) {
    const lab_node subjects = lab_node_member(statement, "subject");
    char name[128], words[192];
    snprintf(name, sizeof name, "%s.%s", kernel, part);
    bool found = false;
    for (size_t i = 0; i < json_array_size(subjects.value); i++) {
        const lab_node subject = lab_node_element(&subjects, i),
                       digest = lab_node_member(&subject, "digest");
        const char *text = NULL;
        if (!lab_node_text(&subject, "name", &text, why))
            return false;
        if (strcmp(text, name) != 0)
            continue;
        if (found)
            return lab_node_fail(&subject, "there is another subject of this name", why);
        found = true;
        if (!lab_node_digest(&digest, "sha256", out, why))
            return false;
    }
    snprintf(words, sizeof words, "%s is not among the subjects", name);
    return found || lab_node_fail(&subjects, words, why);
}

/* The statement must have no other subjects: they would seem to be attested too. */
static bool read_no_more_subjects(const lab_attestation *a, const lab_node *statement,
                                  lab_message *why) {
    const lab_node subjects = lab_node_member(statement, "subject");
    const size_t own = a->cc && !a->peer ? 2 : 1;
    return json_array_size(subjects.value) == own ||
           lab_node_fail(&subjects, "has subjects that the statement is not about", why);
}

/* A GPU's name, compute capability and kind. */
static bool read_gpu(lab_attestation *a, const lab_node *gpu, lab_message *why) {
    const lab_node place = lab_node_member(gpu, "compute_capability"),
                   id = lab_node_member(gpu, "uuid");
    double cc = 0.0, sms = 0.0;
    const char *uuid = NULL;
    if (!lab_node_copy(gpu, "name", a->device, sizeof a->device, why) ||
        !lab_node_text(gpu, "uuid", &uuid, why) ||
        !lab_node_number(gpu, "compute_capability", &cc, why) ||
        !lab_node_number(gpu, "multiprocessors", &sms, why))
        return false;
    if (strlen(uuid) != 40 || strncmp(uuid, "GPU-", 4) != 0)
        return lab_node_fail(&id, "is not the uuid of a GPU", why);
    if (!(cc > 0.0 && cc < 1000.0 && sms > 0.0 && sms < 1e5))
        return lab_node_fail(&place, "it or multiprocessors is out of range", why);
    a->cc = (int)cc;
    a->sms = (int)sms;
    lab_place_name(a->device, a->place, sizeof a->place);
    return true;
}

bool lab_attested_device(lab_attestation *a, const lab_node *predicate, lab_message *why) {
    const lab_node machine = lab_node_member(predicate, "machine"),
                   gpu = lab_node_member(&machine, "gpu");
    att_isa isa;
    char name[16];
    if (!lab_node_expect(&machine, "device", gpu.value ? "cuda" : "cpu", why))
        return false;
    if (gpu.value)
        return read_gpu(a, &gpu, why);
    const lab_node highest = lab_node_member(&machine, "isa_machine");
    if (!lab_node_copy(&machine, "processor", a->device, sizeof a->device, why) ||
        !lab_node_copy(&machine, "isa_machine", name, sizeof name, why))
        return false;
    if (!lab_isa_parse(&isa, name) || isa == ATT_ISA_AUTO)
        return lab_node_fail(&highest, "is not an instruction set", why);
    lab_place_cpu(a->device, isa, a->place, sizeof a->place);
    return true;
}

/* Whether the usual suites were run, with the usual seed. */
static bool read_suites(lab_attestation *a, const lab_node *predicate, lab_message *why) {
    const lab_node suites = lab_node_member(predicate, "suites");
    const char *checked = NULL, *timed = NULL;
    if (!lab_node_text(&suites, "verified", &checked, why) ||
        !lab_node_text(&suites, "timed", &timed, why))
        return false;
    a->partial = a->seed != 0.0 ||
                 strcmp(checked, a->cc ? LAB_CHECKED_GPU : LAB_CHECKED_CPU) != 0 ||
                 strcmp(timed, a->cc ? LAB_TIMED_GPU : LAB_TIMED_CPU) != 0;
    return true;
}

/* "2026-11-19T20:16:16Z". */
static bool is_time_of_day(const char *text) {
    static const char pattern[] = "0000-00-00T00:00:00Z";
    for (size_t i = 0; i < sizeof pattern; i++)
        if (pattern[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != pattern[i])
            return false;
    return true;
}

/* Who measured, and in which environment. */
static bool read_circumstances(lab_attestation *a, const lab_node *predicate,
                               lab_message *why) {
    const lab_node harness = lab_node_member(predicate, "harness"),
                   environment = lab_node_member(predicate, "environment"),
                   compiler = lab_node_member(predicate, "compiler"),
                   made = lab_node_member(predicate, "made"),
                   seed = lab_node_member(predicate, "seed");
    const char *flags = NULL, *version = NULL;
    if (!lab_node_copy(predicate, "made", a->made, sizeof a->made, why) ||
        !lab_node_text(predicate, "attest", &version, why) ||
        !lab_node_copy(&compiler, "name", a->compiler, sizeof a->compiler, why) ||
        !lab_node_text(&compiler, "flags", &flags, why) ||
        !lab_node_text(&compiler, "options", &flags, why) ||
        !lab_node_text(&compiler, "host", &flags, why) ||
        !lab_node_digest(&harness, "judge_sha256", a->judge, why) ||
        !lab_node_digest(&harness, "clock_sha256", a->clock, why) ||
        !lab_node_text(&harness, "program_sha256", &flags, why) ||
        !lab_node_number(predicate, "seed", &a->seed, why) ||
        !lab_node_is_object(&environment, why))
        return false;
    if (!is_time_of_day(a->made))
        return lab_node_fail(&made, "is not a time as in 2026-11-19T20:16:16Z", why);
    if (!json_is_integer(seed.value))
        return lab_node_fail(&seed, "expected a whole number", why);
    const char *amx = json_string_value(json_object_get(environment.value, "ATTEST_AMX_F32"));
    a->amx_f32 = amx && *amx && strcmp(amx, "0") != 0;
    return true;
}

static const att_kernel_row *find_row(const char *id) {
    for (size_t i = 0; i < att_registry_count(); i++)
        if (strcmp(att_registry_row(i)->id, id) == 0)
            return att_registry_row(i);
    return NULL;
}

static bool read_statement(lab_attestation *a, const lab_node *statement,
                           const lab_suite_set usual[2], lab_claims *claims, lab_message *why) {
    const lab_node predicate = lab_node_member(statement, "predicate");
    const char *role = NULL;
    char part[24];
    if (!lab_node_expect(statement, "_type", LAB_STATEMENT_TYPE, why) ||
        !lab_node_expect(statement, "predicateType", LAB_PREDICATE_TYPE, why) ||
        !lab_node_copy(&predicate, "kernel", a->kernel, sizeof a->kernel, why) ||
        !lab_node_text(&predicate, "role", &role, why) ||
        !read_circumstances(a, &predicate, why) || !lab_attested_device(a, &predicate, why) ||
        !read_suites(a, &predicate, why))
        return false;
    a->peer = json_object_get(predicate.value, "peer") != NULL;
    if (!lab_attested_subject(statement, a->kernel, a->peer ? "library" : "source", a->source,
                              why))
        return false;
    snprintf(part, sizeof part, "sm_%d", a->cc);
    if (a->cc && !a->peer && !lab_attested_subject(statement, a->kernel, part, a->code, why))
        return false;
    if (!read_no_more_subjects(a, statement, why))
        return false;
    const att_kernel_row *row = a->peer ? NULL : find_row(a->kernel);
    const char *want = a->peer ? "peer" : row ? att_row_role(row) : role;
    return lab_node_expect(&predicate, "role", want, why) &&
           lab_attested_problems(a, &predicate, row, &usual[a->cc > 0], claims, why);
}

bool lab_attestation_read(lab_attestation *attestation, const char *path,
                          const lab_suite_set usual[2], lab_claims *claims, lab_message *why) {
    *attestation = (lab_attestation){.cc = 0};
    json_t *document = lab_json_load(path, why);
    if (!document)
        return false;
    const lab_node statement = lab_node_root(path, document);
    const bool ok = read_statement(attestation, &statement, usual, claims, why);
    json_decref(document);
    return ok;
}
