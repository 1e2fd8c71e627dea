/* suite.c: finding and reading suite files. */
#include "lab/suite.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 4 };

/* The folder of the running program, or "." where the system does not say. */
static void program_folder(char *buf, size_t n) {
    const ssize_t length = readlink("/proc/self/exe", buf, n - 1);
    char *slash = NULL;
    if (length > 0) {
        buf[length] = '\0';
        slash = strrchr(buf, '/');
    }
    if (slash)
        *slash = '\0';
    else
        snprintf(buf, n, ".");
}

static FILE *search(lab_suite *suite, const char *name, lab_message *why) {
    if (strchr(name, '/')) {
        snprintf(suite->path, sizeof suite->path, "%s", name);
        FILE *file = fopen(name, "r");
        if (!file)
            lab_fail(why, "%s: %s", name, strerror(errno));
        return file;
    }
    char program[PATH_MAX];
    program_folder(program, sizeof program);
    static const char *const beside[PLACES] = {NULL, "/suites", "/../suites",
                                               "/../share/attest/suites"};
    const char *chosen = getenv("ATTEST_SUITES");
    for (int i = 0; i < PLACES; i++) {
        int length;
        if (beside[i])
            length = snprintf(suite->path, sizeof suite->path, "%s%s/%s.txt", program,
                              beside[i], name);
        else if (chosen && *chosen)
            length = snprintf(suite->path, sizeof suite->path, "%s/%s.txt", chosen, name);
        else
            continue;
        FILE *file = length < (int)sizeof suite->path ? fopen(suite->path, "r") : NULL;
        if (file)
            return file;
    }
    lab_fail(why,
             "no suite '%s': no %s.txt in $ATTEST_SUITES, %s/suites, %s/../suites or "
             "%s/../share/attest/suites",
             name, name, program, program, program);
    return NULL;
}

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
    FILE *file = search(suite, name, why);
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
