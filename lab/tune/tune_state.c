/* tune_state.c: the record of a search: every trial, and the identity of the search. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/base/atomic_file.h"
#include "lab/base/json.h"
#include "lab/base/json_load.h"
#include "lab/base/json_node.h"
#include "lab/problem/problem_json.h"
#include "lab/tune/tune.h"
#include "lab/verify/verify_json.h"

static const char schema[] = "attest-tune-state-1";

static const char *const outcomes[] = {
    [LAB_PASS] = "pass", [LAB_FAIL] = "fail", [LAB_REFUSED] = "refused"};

static json_t *trial_object(const lab_base *base, const lab_trial *trial) {
    const lab_variant *v = &trial->variant;
    json_t *off = json_array();
    for (size_t i = 0; i < base->switch_count; i++)
        if (v->off & (1u << i))
            json_array_append_new(off, json_string(base->switches[i]));
    return json_pack("{s:[i,i,i,i], s:o, s:s, s:o, s:o, s:o, s:s}", "tile", v->m, v->n,
                     v->stages, v->warps, "off", off, "outcome", outcomes[trial->outcome],
                     "cost", lab_json_number(trial->cost), "median_ns",
                     lab_json_number(trial->ns), "shipped_ns", lab_json_number(trial->base_ns),
                     "message", trial->message);
}

static json_t *trials_array(const lab_tuning *t) {
    json_t *array = json_array();
    for (size_t i = 0; i < t->trial_count; i++)
        json_array_append_new(array, trial_object(&t->base, &t->trials[i]));
    return array;
}

/* The fields that must match for trials to belong to the same search. */
static json_t *identity_object(const lab_tuning *t) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(t->base.spec, line, sizeof line);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I}", "kernel", t->base.id, "problem",
                     line, "source_sha256", t->base.source_sha256, "gpu_uuid",
                     t->base.gpu.gpu_uuid, "driver_version", (int)t->base.gpu.driver_version,
                     "seed", (json_int_t)t->options.bench.seed, "population",
                     (json_int_t)t->options.population);
}

bool lab_tune_state_write(const lab_tuning *t, lab_message *why) {
    lab_atomic_file file = {.fd = -1};
    json_t *document = lab_json_document(schema, t->ctx);
    json_object_set_new(document, "search", identity_object(t));
    json_object_set_new(document, "trials", trials_array(t));
    if (!lab_atomic_create(&file, t->options.state, why)) {
        json_decref(document);
        return false;
    }
    FILE *stream = fdopen(dup(file.fd), "w");
    if (!stream) {
        json_decref(document);
        lab_atomic_discard(&file);
        return lab_fail(why, "%s: %s", t->options.state, strerror(errno));
    }
    bool ok = lab_json_write(document, stream, why);
    if (fclose(stream) != 0 && ok)
        ok = lab_fail(why, "%s: %s", t->options.state, strerror(errno));
    ok = ok && lab_atomic_commit(&file, why);
    lab_atomic_discard(&file);
    return ok;
}

/* The names of the switches that are off. */
static bool read_off(uint32_t *out, const lab_base *base, const lab_node *trial,
                     lab_message *why) {
    const lab_node off = lab_node_member(trial, "off");
    if (!lab_node_is_array(&off, why))
        return false;
    for (size_t i = 0; i < json_array_size(off.value); i++) {
        const lab_node element = lab_node_element(&off, i);
        const char *name = json_string_value(element.value);
        size_t at = 0;
        while (name && at < base->switch_count && strcmp(name, base->switches[at]) != 0)
            at++;
        if (!name || at == base->switch_count)
            return lab_node_fail(&element, "is not a switch of the kernel", why);
        *out |= 1u << at;
    }
    return true;
}

static bool read_outcome(lab_outcome *out, const lab_node *trial, lab_message *why) {
    const lab_node at = lab_node_member(trial, "outcome");
    const char *text = NULL;
    if (!lab_node_text(trial, "outcome", &text, why))
        return false;
    for (int i = 0; i < (int)(sizeof outcomes / sizeof outcomes[0]); i++)
        if (strcmp(text, outcomes[i]) == 0) {
            *out = (lab_outcome)i;
            return true;
        }
    return lab_node_fail(&at, "expected pass, fail or refused", why);
}

static bool read_trial(lab_trial *out, const lab_tuning *t, const lab_node *trial,
                       lab_message *why) {
    *out = (lab_trial){.cost = INFINITY};
    lab_variant *v = &out->variant;
    const lab_node tile = lab_node_member(trial, "tile"), cost = lab_node_member(trial, "cost");
    const char *message = "";
    if (!lab_node_is_object(trial, why))
        return false;
    if (json_unpack(tile.value, "[i,i,i,i!]", &v->m, &v->n, &v->stages, &v->warps) != 0)
        return lab_node_fail(&tile, "expected four whole numbers", why);
    if (!cost.value)
        return lab_node_fail(&cost, "is missing", why);
    if (!read_off(&v->off, &t->base, trial, why) || !read_outcome(&out->outcome, trial, why) ||
        !lab_node_number_maybe(trial, "cost", &out->cost, why) ||
        !lab_node_number_maybe(trial, "median_ns", &out->ns, why) ||
        !lab_node_number_maybe(trial, "shipped_ns", &out->base_ns, why) ||
        !lab_node_text_maybe(trial, "message", &message, why))
        return false;
    snprintf(out->message, sizeof out->message, "%s", message);
    return out->cost > 0.0 || lab_node_fail(&cost, "expected a number above 0", why);
}

static bool check_identity(const lab_tuning *t, const lab_node *document, lab_message *why) {
    const lab_node then = lab_node_member(document, "search");
    if (!lab_node_is_object(&then, why))
        return false;
    json_t *now = identity_object(t);
    const char *key;
    json_t *value;
    bool ok = true;
    json_object_foreach(now, key, value) {
        const lab_node other = lab_node_member(&then, key);
        if (ok && !json_equal(value, other.value)) {
            char *a = json_dumps(value, JSON_ENCODE_ANY),
                 *b = other.value ? json_dumps(other.value, JSON_ENCODE_ANY) : NULL;
            ok = lab_fail(why, "%s: %s: is %.150s, but this search's is %.150s", other.file,
                          other.path, b ? b : "not there", a ? a : "?");
            free(a);
            free(b);
        }
    }
    json_decref(now);
    return ok;
}

static bool read_trials(lab_tuning *t, const lab_node *document, lab_message *why) {
    const lab_node trials = lab_node_member(document, "trials");
    const size_t count = json_array_size(trials.value);
    if (!lab_node_is_array(&trials, why))
        return false;
    t->trials = calloc(count ? count : 1, sizeof *t->trials);
    if (!t->trials)
        return lab_fail(why, "no memory for %zu trials", count);
    t->trial_room = count ? count : 1;
    for (; t->trial_count < count; t->trial_count++) {
        const lab_node node = lab_node_element(&trials, t->trial_count);
        lab_trial *trial = &t->trials[t->trial_count];
        if (!read_trial(trial, t, &node, why))
            return false;
        t->wrong += trial->outcome == LAB_FAIL;
    }
    t->resumed = count;
    return true;
}

bool lab_tune_state_read(lab_tuning *t, lab_message *why) {
    if (access(t->options.state, F_OK) != 0 && errno == ENOENT)
        return true;
    json_t *value = lab_json_load(t->options.state, why);
    if (!value)
        return false;
    const lab_node document = lab_node_root(t->options.state, value);
    const bool ok = lab_node_is_object(&document, why) &&
                    lab_node_expect(&document, "schema", schema, why) &&
                    check_identity(t, &document, why) && read_trials(t, &document, why);
    json_decref(value);
    return ok;
}

json_t *lab_tuning_object(const lab_tuning *t) {
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:o, s:i, s:i, s:b}", "kernel", t->base.id, "problem",
        lab_json_problem(t->base.spec), "search", identity_object(t), "trials", trials_array(t),
        "resumed", (int)t->resumed, "wrong", (int)t->wrong, "exhausted", t->exhausted);
    if (!t->has_winner)
        return object;
    json_object_set_new(object, "winner", json_string(t->winner_id));
    json_object_set_new(
        object, "winner_tile",
        json_pack("[i,i,i,i]", t->winner.m, t->winner.n, t->winner.stages, t->winner.warps));
    static const char *const names[] = {"shipped", "tuned"};
    for (int i = 0; i < 2; i++) {
        const lab_bench_case *c = &t->final[i];
        json_t *side =
            json_pack("{s:o, s:o}", "verify", lab_json_verify(&c->verify), "samples_ns",
                      lab_json_numbers(c->samples_ns, c->timed ? c->sample_count : 0));
        if (c->timed) {
            json_object_set_new(side, "median_ns", lab_json_number(c->ns.median));
            json_object_set_new(side, "low_ns", lab_json_number(c->ns.low));
            json_object_set_new(side, "high_ns", lab_json_number(c->ns.high));
        }
        json_object_set_new(object, names[i], side);
    }
    if (t->judged) {
        char row[LAB_VARIANT_TEXT];
        lab_tune_row(t, row, sizeof row);
        json_object_set_new(object, "verdict", json_string(lab_verdict_name(t->verdict.kind)));
        json_object_set_new(object, "effect", lab_json_number(t->verdict.effect));
        json_object_set_new(object, "effect_low", lab_json_number(t->verdict.low));
        json_object_set_new(object, "effect_high", lab_json_number(t->verdict.high));
        json_object_set_new(object, "row", json_string(row));
    }
    return object;
}
