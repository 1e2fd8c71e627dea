/* suite.c: reads suite files. */
#include "lab/problem/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/data_file.h"
#include "lab/base/suggest.h"

static const lab_data_kind suites = {
    .what = "suite", .folder = "suites", .suffix = ".txt", .environment = "ATTEST_SUITES"};

static char *trim(char *line) {
    line[strcspn(line, "#\r\n")] = '\0';
    line += strspn(line, " \t");
    char *end = line + strlen(line);
    while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = '\0';
    return line;
}

static bool add_spec(lab_suite *suite, const char *text, int line, lab_message *why) {
    if (suite->count % 64 == 0) {
        lab_spec *grown = realloc(suite->specs, (suite->count + 64) * sizeof *grown);
        if (!grown)
            return lab_fail(why, "%s: no memory", suite->path);
        suite->specs = grown;
    }
    lab_message fault;
    if (!lab_spec_parse(&suite->specs[suite->count], text, &fault))
        return lab_fail(why, "%s:%d: %.300s", suite->path, line, fault.text);
    suite->count++;
    return true;
}

/* The text after the name in the first line; truncated if it is long. */
static void read_summary(lab_suite *suite, const char *line) {
    const char *colon = strstr(line, ": ");
    if (line[0] == '#' && colon)
        snprintf(suite->summary, sizeof suite->summary, "%.*s", (int)strcspn(colon + 2, "\r\n"),
                 colon + 2);
}

static bool read_lines(lab_suite *suite, FILE *file, lab_message *why) {
    char text[LAB_SPEC_MAX + 256];
    for (int line = 1; fgets(text, sizeof text, file); line++) {
        if (!strchr(text, '\n') && !feof(file))
            return lab_fail(why, "%s:%d: the line is too long", suite->path, line);
        if (line == 1)
            read_summary(suite, text);
        const char *spec = trim(text);
        if (*spec && !add_spec(suite, spec, line, why))
            return false;
    }
    return !ferror(file) || lab_fail(why, "%s: cannot be read", suite->path);
}

/* All suites, and the one nearest to a name. */
typedef struct near_names {
    const char *misspelt;
    char nearest[64], all[320];
    size_t distance;
} near_names;

static void look_at(const char *name, void *state) {
    near_names *n = state;
    lab_suggestion suggestion = {.word = NULL};
    const size_t used = strlen(n->all);
    snprintf(n->all + used, sizeof n->all - used, "%s%s", used ? ", " : "", name);
    lab_suggest(&suggestion, n->misspelt, name);
    if (suggestion.word && (!*n->nearest || suggestion.distance < n->distance)) {
        snprintf(n->nearest, sizeof n->nearest, "%s", name);
        n->distance = suggestion.distance;
    }
}

void lab_suite_each(void (*visit)(const char *name, void *state), void *state) {
    lab_data_list(&suites, visit, state);
}

/* Add the names of the existing suites, if any; otherwise `why` names the folders already. */
static void name_others(const char *name, lab_message *why) {
    near_names names = {.misspelt = name};
    if (strchr(name, '/'))
        return;
    lab_suite_each(look_at, &names);
    if (*names.nearest)
        lab_fail(why, "no suite '%.64s'; did you mean '%s'? There are %s", name, names.nearest,
                 names.all);
    else if (*names.all)
        lab_fail(why, "no suite '%.64s'; there are %s, or the path of a file, with a /", name,
                 names.all);
}

bool lab_suite_read(lab_suite *suite, const char *name, lab_message *why) {
    *suite = (lab_suite){0};
    FILE *file = lab_data_open(&suites, name, suite->path, sizeof suite->path, why);
    if (!file) {
        name_others(name, why);
        return false;
    }
    const bool good = read_lines(suite, file, why);
    fclose(file);
    if (!good)
        lab_suite_free(suite);
    return good;
}

void lab_suite_free(lab_suite *suite) {
    free(suite->specs);
    *suite = (lab_suite){0};
}
