/* suite.c: reading suite files. */
#include "lab/problem/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/data_file.h"

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

static bool read_lines(lab_suite *suite, FILE *file, lab_message *why) {
    char text[LAB_SPEC_MAX + 256];
    for (int line = 1; fgets(text, sizeof text, file); line++) {
        if (!strchr(text, '\n') && !feof(file))
            return lab_fail(why, "%s:%d: the line is too long", suite->path, line);
        const char *spec = trim(text);
        if (*spec && !add_spec(suite, spec, line, why))
            return false;
    }
    return !ferror(file) || lab_fail(why, "%s: cannot be read", suite->path);
}

bool lab_suite_read(lab_suite *suite, const char *name, lab_message *why) {
    *suite = (lab_suite){0};
    FILE *file = lab_data_open(&suites, name, suite->path, sizeof suite->path, why);
    if (!file)
        return false;
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
