/* spawn.h: run another program, never through a shell, and keep what it prints. The one place that starts programs; the fork of
 * cli/supervisor.c is of this program itself. */
#ifndef LAB_SPAWN_H
#define LAB_SPAWN_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"

/* What became of it. */
typedef struct lab_child {
    int status;        /* its exit code; 128 + the signal that ended it */
    char *out, *error; /* what it printed, each ends with a zero; lab_child_free() */
} lab_child;

/* Run argv[0], found by PATH where it has no '/', to its end; `input` is the file of its standard input, NULL: nothing. Fails where
 * it cannot be started: `missing` (may be NULL) is then whether there is no such program. */
bool lab_spawn(lab_child *child, const char *const argv[], const char *input, bool *missing,
               lab_message *why);

/* Run the program that calls this with other arguments to its end. Its messages go where those of the caller go: child->error is
 * empty. Fails where it cannot be started. */
bool lab_spawn_self(lab_child *child, const char *const argv[], lab_message *why);

void lab_child_free(lab_child *child);

#endif
