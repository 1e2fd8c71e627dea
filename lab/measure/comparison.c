/* comparison.c: pairs comparable results and refuses others. */
#include "lab/measure/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json.h"
#include "lab/measure/bench_json.h"
#include "lab/statistics/spans.h"

static const char *const key_names[LAB_KEY_COUNT] = {
    [LAB_KEY_DEVICE] = "device",   [LAB_KEY_DRIVER] = "driver", [LAB_KEY_COMPILER] = "compiler",
    [LAB_KEY_SUBJECT] = "subject", [LAB_KEY_KERNEL] = "kernel", [LAB_KEY_ISA] = "isa",
    [LAB_KEY_THREADS] = "threads", [LAB_KEY_MODE] = "mode",     [LAB_KEY_TIMER] = "timer",
};

bool lab_keys_parse(unsigned *bits, const char *list, lab_message *why) {
    *bits = 0;
    for (const char *at = list;; at++) {
        const size_t length = strcspn(at, ",");
        int found = -1;
        for (int i = 0; i < LAB_KEY_COUNT; i++)
            if (strlen(key_names[i]) == length && strncmp(at, key_names[i], length) == 0)
                found = i;
        if (found < 0)
            return lab_fail(why,
                            "'%.*s' is not among device, driver, compiler, subject, kernel, "
                            "isa, threads, mode and timer",
                            (int)(length < 40 ? length : 40), at);
        *bits |= 1u << found;
        at += length;
        if (!*at)
            return true;
    }
}

/* ------------------------------------------------------------------------------ keys */

static bool is_gpu(const lab_results *file) {
    return strcmp(file->device, "cuda") == 0;
}

/* The value of a key of the whole file. */
static const char *file_key(const lab_results *file, lab_key key) {
    switch (key) {
    case LAB_KEY_DEVICE:
        return is_gpu(file) ? file->gpu : file->processor;
    case LAB_KEY_DRIVER:
        return file->driver;
    default:
        return file->compiler;
    }
}

/* The value of a key of one result; a number is printed into `buf`. */
static const char *result_key(const lab_result *r, lab_key key, char *buf, size_t n) {
    switch (key) {
    case LAB_KEY_SUBJECT:
        return r->subject;
    case LAB_KEY_KERNEL:
        return r->kernel;
    case LAB_KEY_ISA:
        return r->isa;
    case LAB_KEY_MODE:
        return r->mode;
    case LAB_KEY_TIMER:
        return r->timer;
    default:
        snprintf(buf, n, "%d", r->threads);
        return buf;
    }
}

static bool allows(unsigned allowed, lab_key key) {
    return allowed >> key & 1u;
}

bool lab_compare_machines(const lab_results *a, const lab_results *b, unsigned allowed,
                          lab_message *why) {
    for (int key = LAB_KEY_DEVICE; key <= LAB_KEY_COMPILER; key++) {
        const char *of_a = file_key(a, (lab_key)key), *of_b = file_key(b, (lab_key)key);
        if (!allows(allowed, (lab_key)key) && strcmp(of_a, of_b) != 0)
            return lab_fail(why,
                            "unlike things: %s is \"%s\" in A and \"%s\" in B (--allow %s to "
                            "compare all the same)",
                            key_names[key], of_a, of_b, key_names[key]);
    }
    return true;
}

/* The first key in which two results differ, of those that must not; LAB_KEY_COUNT: none. */
static lab_key first_difference(const lab_result *a, const lab_result *b, unsigned allowed) {
    char of_a[16], of_b[16];
    for (int key = LAB_KEY_SUBJECT; key < LAB_KEY_COUNT; key++)
        if (!allows(allowed, (lab_key)key) &&
            strcmp(result_key(a, (lab_key)key, of_a, sizeof of_a),
                   result_key(b, (lab_key)key, of_b, sizeof of_b)) != 0)
            return (lab_key)key;
    return LAB_KEY_COUNT;
}

/* --------------------------------------------------------------------------- pairing */

/* Whether a result of A matches one of the results of B. If so, it is that one's partner, even
 * if it differs from the result at hand. */
static bool has_like(const lab_results *b, const lab_result *r, unsigned allowed) {
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->results[i].problem, r->problem) == 0 &&
            first_difference(r, &b->results[i], allowed) == LAB_KEY_COUNT)
            return true;
    return false;
}

/* The result of A to compare with `b`, a result of B. NULL if A does not have it (another
 * rival, another mode), or if it must not be compared: *refused is then true and `why` gives
 * the reason. */
static const lab_result *partner(const lab_results *a, const lab_results *of,
                                 const lab_result *b, unsigned allowed, bool *refused,
                                 lab_message *why) {
    const lab_result *found = NULL, *unlike = NULL;
    *refused = false;
    for (size_t i = 0; i < a->count; i++) {
        const lab_result *r = &a->results[i];
        if (!r->timed || strcmp(r->problem, b->problem) != 0)
            continue;
        if (first_difference(r, b, allowed) != LAB_KEY_COUNT) {
            unlike = has_like(of, r, allowed) ? unlike : r;
        } else if (found) {
            *refused = true;
            lab_fail(why, "%s: A has several results that it could be compared with: %s and %s",
                     b->problem, found->kernel, r->kernel);
            return NULL;
        } else {
            found = r;
        }
    }
    if (!found && unlike) {
        char of_a[16], of_b[16];
        const lab_key key = first_difference(unlike, b, allowed);
        *refused = true;
        lab_fail(why,
                 "unlike things: %s: %s is \"%s\" in A and \"%s\" in B (--allow %s to compare "
                 "all the same)",
                 b->problem, key_names[key], result_key(unlike, key, of_a, sizeof of_a),
                 result_key(b, key, of_b, sizeof of_b), key_names[key]);
    }
    return found;
}

static bool has_problem(const lab_results *file, const char *problem) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->results[i].problem, problem) == 0)
            return true;
    return false;
}

static void add_row(lab_comparison *c, const lab_result *a, const lab_result *b) {
    c->rows[c->count++] = (lab_comparison_row){.a = a, .b = b, .lost = !b->timed};
    c->lost += !b->timed;
}

static bool judge_row(lab_comparison *c, lab_comparison_row *row, uint64_t seed,
                      lab_message *why) {
    if (!lab_verdict_of(&row->verdict, &row->a->samples, &row->b->samples, LAB_UNPAIRED,
                        c->minimum_effect, seed, why))
        return false;
    c->of[row->verdict.kind]++;
    c->ratio += log1p(row->verdict.effect);
    c->worst_effect = fmax(c->worst_effect, row->verdict.effect);
    return true;
}

static bool pair_all(lab_comparison *c, const lab_results *a, const lab_results *b,
                     unsigned allowed, lab_message *why) {
    for (size_t i = 0; i < b->count; i++) {
        const lab_result *of_b = &b->results[i];
        bool refused;
        const lab_result *of_a = partner(a, b, of_b, allowed, &refused, why);
        if (refused)
            return false;
        if (!of_a)
            c->only_b += of_b->timed;
        else
            add_row(c, of_a, of_b);
    }
    for (size_t i = 0; i < a->count; i++)
        c->only_a += a->results[i].timed && !has_problem(b, a->results[i].problem);
    return c->count > 0 || lab_fail(why, "A and B have no problem in common");
}

/* ------------------------------------------------------------------ minimum effect */

static bool find_minimum_effect(lab_comparison *c, lab_message *why) {
    lab_spans spans = {.all = NULL};
    bool ok = true;
    for (size_t i = 0; ok && i < c->count; i++) {
        const lab_comparison_row *row = &c->rows[i];
        ok = row->lost || (lab_spans_add(&spans, &row->a->samples, why) &&
                           lab_spans_add(&spans, &row->b->samples, why));
    }
    c->minimum_effect = lab_spans_minimum_effect(&spans);
    lab_spans_free(&spans);
    return ok;
}

/* ------------------------------------------------------------------------- comparing */

bool lab_compare(lab_comparison *out, const lab_results *a, const lab_results *b,
                 unsigned allowed, double minimum_effect, uint64_t seed, lab_message *why) {
    *out = (lab_comparison){.minimum_effect = minimum_effect, .worst_effect = -1.0};
    if (!lab_compare_machines(a, b, allowed, why))
        return false;
    out->rows = calloc(b->count ? b->count : 1, sizeof *out->rows);
    if (!out->rows)
        return lab_fail(why, "no memory to compare %zu results", b->count);
    bool ok = pair_all(out, a, b, allowed, why);
    if (ok && minimum_effect <= 0.0)
        ok = find_minimum_effect(out, why);
    for (size_t i = 0; ok && i < out->count; i++)
        if (!out->rows[i].lost)
            ok = judge_row(out, &out->rows[i], seed, why);
    if (!ok) {
        lab_comparison_free(out);
        return false;
    }
    const size_t verdicts = out->count - out->lost;
    out->ratio = verdicts ? exp(out->ratio / (double)verdicts) : 1.0;
    return true;
}

void lab_comparison_free(lab_comparison *c) {
    free(c->rows);
    *c = (lab_comparison){.rows = NULL};
}

bool lab_comparison_holds(const lab_comparison *c) {
    return c->of[LAB_SLOWER] == 0 && c->of[LAB_AMBIGUOUS] == 0 && c->lost == 0;
}

/* ------------------------------------------------------------------------------ JSON */

static json_t *row_object(const lab_comparison_row *row) {
    const lab_result *a = row->a, *b = row->b;
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:b}", "problem", b->problem, "subject_a",
                  a->subject, "subject_b", b->subject, "kernel_a", a->kernel, "kernel_b",
                  b->kernel, "median_a_ns", lab_json_number(a->median_ns), "code_differs",
                  strcmp(a->code_sha256, b->code_sha256) != 0);
    if (row->lost) {
        json_object_set_new(object, "lost", json_string(b->outcome));
        return object;
    }
    json_object_set_new(object, "median_b_ns", lab_json_number(b->median_ns));
    json_object_set_new(object, "verdict", lab_json_verdict(&row->verdict));
    return object;
}

json_t *lab_json_comparison(const lab_comparison *c) {
    json_t *rows = json_array(), *tally = json_object();
    for (size_t i = 0; i < c->count; i++)
        json_array_append_new(rows, row_object(&c->rows[i]));
    for (int kind = LAB_FASTER; kind <= LAB_AMBIGUOUS; kind++)
        json_object_set_new(tally, lab_verdict_name((lab_verdict_kind)kind),
                            json_integer((json_int_t)c->of[kind]));
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:o, s:b, s:o}", "minimum_effect",
                     lab_json_number(c->minimum_effect), "tally", tally, "lost",
                     (json_int_t)c->lost, "only_a", (json_int_t)c->only_a, "only_b",
                     (json_int_t)c->only_b, "ratio", lab_json_number(c->ratio), "holds",
                     lab_comparison_holds(c), "rows", rows);
}
