/* suite.h: a named list of problems, kept as a text file: one spec per line, # begins a
 * comment. */
#ifndef LAB_SUITE_H
#define LAB_SUITE_H

#include <stddef.h>

#include "lab/base/message.h"
#include "lab/problem/spec.h"

typedef struct lab_suite {
    char path[1024];   /* the file that was read */
    char summary[160]; /* from its first line, `# NAME: summary`; "" if that has another form */
    size_t count;
    lab_spec *specs;
} lab_suite;

/* Read a suite: NAME.txt, found as described in lab/base/data_file.h with the variable
 * ATTEST_SUITES, or a path. Fails naming the file and line at fault, or the existing suites,
 * the nearest first. */
bool lab_suite_read(lab_suite *suite, const char *name, lab_message *why);

/* Call `visit` with the name of every suite, sorted. */
void lab_suite_each(void (*visit)(const char *name, void *state), void *state);

void lab_suite_free(lab_suite *suite);

#endif
