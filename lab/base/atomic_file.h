/* atomic_file.h: a file that takes its place whole or not at all.
 *
 * It is written under a temporary name beside its place, so that the last step is a rename. */
#ifndef LAB_ATOMIC_FILE_H
#define LAB_ATOMIC_FILE_H

#include <stdbool.h>

#include "lab/base/message.h"

typedef struct lab_atomic_file {
    int fd;          /* open for reading and writing; -1 once given away or closed */
    char *path;      /* where it will be, symbolic links followed */
    char *temporary; /* where it is; NULL once in place */
} lab_atomic_file;

/* Create the temporary file, with the permissions that a plain open would give. What is at `path`
 * already must be a regular file: a device is never replaced. On failure nothing is left. */
bool lab_atomic_create(lab_atomic_file *file, const char *path, lab_message *why);

/* Put it in place of `path`. On failure `path` is as it was and the temporary file is gone. */
bool lab_atomic_commit(lab_atomic_file *file, lab_message *why);

/* Close and remove it; nothing where it was committed, or never created (a zeroed struct). */
void lab_atomic_discard(lab_atomic_file *file);

/* Remove every temporary file of this process. For signal handlers: async-signal-safe. */
void lab_atomic_remove_all(void);

#endif
