/* spec.c: reads and prints specs, with the words of their operation. */
#include "lab/problem/spec.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "lab/base/suggest.h"
#include "lab/problem/lab_operation.h"

void lab_spec_init(lab_spec *spec) {
    lab_operation_at(0)->init(spec);
}

static const lab_modifier *find_among(const lab_modifier *m, const char *name, size_t length) {
    for (; m && m->name; m++)
        if (strlen(m->name) == length && strncmp(m->name, name, length) == 0)
            return m;
    return NULL;
}

static const lab_modifier *find_modifier(const lab_spec *spec, const char *name,
                                         size_t length) {
    const lab_modifier *own = find_among(spec->operation->modifiers, name, length);
    return own ? own : find_among(spec->operation->shared_modifiers, name, length);
}

static void suggest_among(lab_suggestion *nearest, const char *name, const lab_modifier *m) {
    for (; m && m->name; m++)
        lab_suggest(nearest, name, m->name);
}

static bool unknown_modifier(const lab_spec *spec, const char *name, lab_message *why) {
    lab_suggestion nearest = {0};
    suggest_among(&nearest, name, spec->operation->modifiers);
    suggest_among(&nearest, name, spec->operation->shared_modifiers);
    if (nearest.word)
        return lab_fail(why, "unknown modifier '%s'; did you mean '%s'?", name, nearest.word);
    return lab_fail(why, "unknown modifier '%s'", name);
}

/* ------------------------------------------------------------------ reading */

bool lab_spec_set(lab_spec *spec, const char *name, const char *value, lab_message *why) {
    const lab_modifier *found = find_modifier(spec, name, strlen(name));
    return found ? found->set(spec, found->name, value, why)
                 : unknown_modifier(spec, name, why);
}

/* The compact form: keys and numbers alternate, b2h8s512d64. */
static bool read_shape(lab_spec *spec, const char *token, lab_message *why) {
    for (const char *at = token; *at;) {
        size_t letters = 0, digits = 0;
        while (isalpha((unsigned char)at[letters]))
            letters++;
        while (isdigit((unsigned char)at[letters + digits]))
            digits++;
        const lab_modifier *key = find_modifier(spec, at, letters);
        if (!key || !key->is_shape_key)
            return lab_fail(why, "unknown shape key '%.*s' in '%s'", (int)letters, at, token);
        char number[24];
        if (digits == 0 || digits >= sizeof number)
            return lab_fail(why, "'%s' in '%s' needs a number after it", key->name, token);
        snprintf(number, sizeof number, "%.*s", (int)digits, at + letters);
        if (!key->set(spec, key->name, number, why))
            return false;
        at += letters + digits;
    }
    return true;
}

static bool looks_like_shape(const char *token) {
    const char *at = token;
    while (isalpha((unsigned char)*at))
        at++;
    return at > token && isdigit((unsigned char)*at);
}

static bool read_token(lab_spec *spec, char *token, lab_message *why) {
    char *equals = strchr(token, '=');
    if (!equals && !find_modifier(spec, token, strlen(token)) && looks_like_shape(token))
        return read_shape(spec, token, why);
    if (equals)
        *equals = '\0';
    return lab_spec_set(spec, token, equals ? equals + 1 : NULL, why);
}

/* Find the operation whose prefix begins the text, if any; returns the rest of the text. */
static const char *choose_operation(lab_spec *spec, const char *text) {
    for (size_t i = 0; lab_operation_at(i); i++) {
        const lab_operation *operation = lab_operation_at(i);
        const size_t length = strlen(operation->prefix);
        if (length == 0 || strncmp(text, operation->prefix, length) != 0)
            continue;
        if (spec->operation != operation)
            operation->init(spec);
        return text + length;
    }
    return text;
}

bool lab_spec_read(lab_spec *spec, const char *text, lab_message *why) {
    char copy[LAB_SPEC_MAX];
    if (strlen(text) >= sizeof copy)
        return lab_fail(why, "a spec of more than %d characters", LAB_SPEC_MAX - 1);
    snprintf(copy, sizeof copy, "%s", choose_operation(spec, text));
    for (char *rest = copy, *token; (token = strsep(&rest, ",")) != NULL;) {
        if (*token == '\0')
            return lab_fail(why, "an empty modifier in '%s'", text);
        if (!read_token(spec, token, why))
            return false;
    }
    return true;
}

bool lab_spec_parse(lab_spec *spec, const char *text, lab_message *why) {
    lab_spec_init(spec);
    return lab_spec_read(spec, text, why) && lab_spec_finish(spec, why);
}

bool lab_spec_finish(lab_spec *spec, lab_message *why) {
    return spec->operation->finish(spec, why);
}

void lab_spec_print(const lab_spec *spec, char *buf, size_t n) {
    const int used = snprintf(buf, n, "%s", spec->operation->prefix);
    if ((size_t)used < n)
        spec->operation->print(spec, buf + used, n - (size_t)used);
}

double lab_spec_flops(const lab_spec *spec) {
    lab_work work;
    spec->operation->work(&work, spec);
    return work.flops;
}

double lab_spec_bytes(const lab_spec *spec) {
    lab_work work;
    spec->operation->work(&work, spec);
    return work.bytes;
}

const char *lab_spec_operation(const lab_spec *spec) {
    return spec->operation->library->name;
}
