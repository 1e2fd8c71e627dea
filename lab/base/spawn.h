/* spawn.h: run another program, never through a shell, and keep its output. Only this module
 * starts programs; cli/supervisor.c forks this program itself. */
#ifndef LAB_SPAWN_H
#define LAB_SPAWN_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"

/* The outcome of a run. */
typedef struct lab_child {
    int status;        /* exit code, or 128 + the signal that ended it */
    char *out, *error; /* its output, each zero-terminated; free with lab_child_free() */
} lab_child;

/* Run argv[0], searched in PATH if it has no '/', to its end. `input` is the file for its
 * standard input; NULL: empty. Fails if it cannot be started: `missing` (may be NULL) then
 * tells whether there is no such program. */
bool lab_spawn(lab_child *child, const char *const argv[], const char *input, bool *missing,
               lab_message *why);

/* Run the calling program with other arguments to its end. Its messages go to the caller's
 * stderr: child->error is empty. Fails if it cannot be started. */
bool lab_spawn_self(lab_child *child, const char *const argv[], lab_message *why);

void lab_child_free(lab_child *child);

#endif
