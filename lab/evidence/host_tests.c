/* host_tests.c: turns the results of gpu_tests.sh into a statement, and reads it back. */
#include "lab/evidence/host_tests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/clock.h"
#include "lab/base/json_load.h"
#include "lab/evidence/attestation.h"
#include "lab/evidence/predicate.h"

/* The parts of gpu_tests.sh that a statement must have; the others need programs that a machine
 * may not have. */
static const struct {
    const char *name;
    int cc; /* required on a GPU of this compute capability; 0: on any */
} wanted[] = {{"suites", 0}, {"rows", 0}, {"variants", 0}, {"programs", 0}, {"hopper", 90}};
enum { WANTED = sizeof wanted / sizeof wanted[0] };

/* ------------------------------------------------------------------- writing */

/* Lines are words separated by tabs:
 *     tests SHA256, program SHA256, gpu LINE     at the beginning of every run
 *     part NAME
 *     step NAME PASSED FAILED REFUSED SECONDS
 *     skipped REASON                             of the part */
typedef struct results {
    const char *path;
    const char *gpu_name;
    char program[ATT_SHA256_HEX];
    int runs, line;
    json_t *parts, *part;
    lab_message *why;
} results;

static bool fault(const results *r, const char *text) {
    return lab_fail(r->why, "%s:%d: %s", r->path, r->line, text);
}

/* A part may occur in several runs: the last one counts. */
static bool begin_part(results *r, const char *name) {
    r->part = json_pack("{s:s, s:[]}", "name", name, "steps");
    size_t i;
    const json_t *known;
    json_array_foreach(r->parts, i, known) {
        if (strcmp(json_string_value(json_object_get(known, "name")), name) == 0)
            return json_array_set_new(r->parts, i, r->part) == 0;
    }
    return json_array_append_new(r->parts, r->part) == 0;
}

static bool add_step(results *r, char *const words[6]) {
    json_int_t numbers[4];
    for (size_t i = 0; i < 4; i++) {
        char *end;
        numbers[i] = strtoll(words[2 + i], &end, 10);
        if (end == words[2 + i] || *end || numbers[i] < 0)
            return fault(r, "a step needs four numbers");
    }
    if (!r->part)
        return fault(r, "a step before any part");
    if (numbers[0] == 0 || numbers[1] > 0)
        return lab_fail(r->why, "%s:%d: %s: %lld passed, %lld failed", r->path, r->line,
                        words[1], (long long)numbers[0], (long long)numbers[1]);
    return json_array_append_new(json_object_get(r->part, "steps"),
                                 json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", words[1],
                                           "passed", numbers[0], "failed", numbers[1],
                                           "refused", numbers[2], "seconds", numbers[3])) == 0;
}

/* Whether JSON can hold it: valid UTF-8. */
static bool is_text(const char *line) {
    json_t *value = json_string(line);
    json_decref(value);
    return value != NULL;
}

static bool add_line(results *r, char *line) {
    char *words[6] = {NULL}, *rest = NULL;
    size_t count = 0;
    line[strcspn(line, "\n")] = '\0';
    if (!is_text(line))
        return fault(r, "is not text");
    for (char *word = strtok_r(line, "\t", &rest); word && count < 6;
         word = strtok_r(NULL, "\t", &rest))
        words[count++] = word;
    if (count == 2 && strcmp(words[0], "tests") == 0) {
        r->runs++;
        r->part = NULL;
        return strcmp(words[1], lab_built_digest("gpu_tests")) == 0 ||
               fault(r, "the tests are not those of this build: build again, run them again");
    }
    if (count == 2 && strcmp(words[0], "program") == 0)
        return strcmp(words[1], r->program) == 0 ||
               fault(r, "another program ran: build again, run the tests again");
    if (count == 2 && strcmp(words[0], "gpu") == 0)
        return strstr(words[1], r->gpu_name) != NULL || fault(r, "ran on another GPU");
    if (count == 2 && strcmp(words[0], "part") == 0)
        return begin_part(r, words[1]);
    if (count == 2 && strcmp(words[0], "skipped") == 0 && r->part)
        return json_object_set_new(r->part, "skipped", json_string(words[1])) == 0;
    if (count == 6 && strcmp(words[0], "step") == 0)
        return add_step(r, words);
    return fault(r, "is not a line of results");
}

static bool read_results(results *r) {
    char line[1024];
    FILE *file = fopen(r->path, "r");
    if (!file)
        return lab_fail(r->why, "%s: %s", r->path, strerror(errno));
    bool ok = true;
    for (r->line = 1; ok && fgets(line, sizeof line, file); r->line++)
        ok = add_line(r, line);
    fclose(file);
    return ok && (r->runs > 0 || lab_fail(r->why, "%s: has no runs", r->path));
}

/* Every required part is present and has steps. */
static bool has_parts(const lab_node *parts, int cc, lab_message *why) {
    for (size_t w = 0; w < WANTED; w++) {
        bool found = wanted[w].cc && wanted[w].cc != cc;
        char words[96];
        for (size_t i = 0; i < json_array_size(parts->value) && !found; i++) {
            const json_t *part = json_array_get(parts->value, i);
            const char *name = json_string_value(json_object_get(part, "name"));
            found = name && strcmp(name, wanted[w].name) == 0 &&
                    json_array_size(json_object_get(part, "steps")) > 0;
        }
        snprintf(words, sizeof words, "the part '%s' is missing", wanted[w].name);
        if (!found)
            return lab_node_fail(parts, words, why);
    }
    return true;
}

static json_t *statement_of(const results *r, const att_context *ctx) {
    char made[32];
    lab_clock_utc(made, sizeof made);
    return json_pack(
        "{s:s, s:[{s:s, s:{s:s}}, {s:s, s:{s:s}}], s:s, s:{s:s, s:s, s:o, s:s, s:O}}", "_type",
        LAB_STATEMENT_TYPE, "subject", "name", "host.source", "digest", "sha256",
        lab_built_digest("host"), "name", "gpu_tests.source", "digest", "sha256",
        lab_built_digest("gpu_tests"), "predicateType", LAB_HOST_PREDICATE, "predicate", "made",
        made, "attest", att_version(), "machine", lab_predicate_machine(ctx), "program_sha256",
        r->program, "parts", r->parts);
}

json_t *lab_host_tests_make(const char *path, const att_context *ctx, lab_message *why) {
    att_context_info info = {.size = sizeof info};
    if (att_context_query(ctx, &info) != ATT_OK || info.device != ATT_DEVICE_CUDA) {
        lab_fail(why, "the tests of the host code run on a GPU: add --device cuda");
        return NULL;
    }
    results r = {.path = path, .gpu_name = info.gpu_name, .parts = json_array(), .why = why};
    json_t *statement = NULL;
    lab_file_digest("/proc/self/exe", r.program);
    const lab_node parts = lab_node_root(path, r.parts);
    if (read_results(&r) && has_parts(&parts, info.compute_capability, why)) {
        statement = statement_of(&r, ctx);
        if (!statement)
            lab_fail(why, "no memory for the statement");
    }
    json_decref(r.parts);
    return statement;
}

/* ------------------------------------------------------------------- reading */

static bool judge_step(const lab_node *step, lab_message *why) {
    const lab_node place = lab_node_member(step, "failed");
    double passed = 0.0, failed = 0.0;
    if (!lab_node_number(step, "passed", &passed, why) ||
        !lab_node_number(step, "failed", &failed, why))
        return false;
    return (passed > 0.0 && failed == 0.0) ||
           lab_node_fail(&place, "something failed, or nothing ran", why);
}

static bool judge_parts(const lab_node *parts, int cc, lab_message *why) {
    for (size_t i = 0; i < json_array_size(parts->value); i++) {
        const lab_node part = lab_node_element(parts, i),
                       steps = lab_node_member(&part, "steps");
        for (size_t k = 0; k < json_array_size(steps.value); k++) {
            const lab_node step = lab_node_element(&steps, k);
            if (!judge_step(&step, why))
                return false;
        }
    }
    return has_parts(parts, cc, why);
}

static lab_host_standing judge(const lab_node *statement, const char *place, lab_message *why) {
    const lab_node predicate = lab_node_member(statement, "predicate"),
                   parts = lab_node_member(&predicate, "parts"),
                   machine = lab_node_member(&predicate, "machine");
    lab_attestation a = {.cc = 0};
    char host[ATT_SHA256_HEX], tests[ATT_SHA256_HEX], program[ATT_SHA256_HEX], words[192];
    if (!lab_node_expect(statement, "_type", LAB_STATEMENT_TYPE, why) ||
        !lab_node_expect(statement, "predicateType", LAB_HOST_PREDICATE, why) ||
        !lab_attested_subject(statement, "host", "source", host, why) ||
        !lab_attested_subject(statement, "gpu_tests", "source", tests, why) ||
        !lab_node_copy(&predicate, "made", a.made, sizeof a.made, why) ||
        !lab_node_digest(&predicate, "program_sha256", program, why) ||
        !lab_attested_device(&a, &predicate, why) || !judge_parts(&parts, a.cc, why))
        return LAB_HOST_BROKEN;
    snprintf(words, sizeof words, "%s belongs in the folder %s", a.device, a.place);
    if (strcmp(a.place, place) != 0) {
        lab_node_fail(&machine, words, why);
        return LAB_HOST_BROKEN;
    }
    if (strcmp(host, lab_built_digest("host")) != 0) {
        lab_fail(why, "%s: host.source: the host code has changed since %s", statement->file,
                 a.made);
        return LAB_HOST_STALE;
    }
    if (strcmp(tests, lab_built_digest("gpu_tests")) != 0) {
        lab_fail(why, "%s: gpu_tests.source: tests/gpu has changed since %s", statement->file,
                 a.made);
        return LAB_HOST_STALE;
    }
    return LAB_HOST_CURRENT;
}

lab_host_standing lab_host_tests_judge(const char *path, const char *place, lab_message *why) {
    why->text[0] = '\0';
    json_t *document = lab_json_load(path, why);
    if (!document)
        return LAB_HOST_BROKEN;
    const lab_node statement = lab_node_root(path, document);
    const lab_host_standing standing = judge(&statement, place, why);
    json_decref(document);
    return standing;
}
